// Package echoidem puts the middleware of package httpidem into a server of echo (v5).
//
//	idem := httpidem.New(engine, &httpidem.Options{Tenant: userOf})
//	e.POST("/orders", createOrder, echoidem.Middleware(idem))
//
// Put it behind what authenticates, logs and recovers. What comes after it is the work that runs
// once. Errors that handlers return are answered inside, by echo's own error handler, so that they
// are kept and replayed as what they were answered with; an error that says that nothing was done
// (retrysafe.NothingDone) lets a repeat run. The attempt is in the context of the request:
// retrysafe.AttemptFrom(c.Request().Context()).
package echoidem
