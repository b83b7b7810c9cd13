// Package echoidem adapts the middleware of package httpidem to echo (v5).
//
//	idem := httpidem.New(engine, &httpidem.Options{Tenant: userOf})
//	e.POST("/orders", createOrder, echoidem.Middleware(idem))
//
// Put it after the middleware that authenticates, logs and recovers. What comes after it is the
// work that runs once. Echo's own error handler answers the errors that handlers return, inside the
// guard, so that these answers are stored and replayed. An error that says that nothing was done
// (retrysafe.NothingDone) lets a retry run. The attempt is in the context of the request:
// retrysafe.AttemptFrom(c.Request().Context()).
package echoidem
