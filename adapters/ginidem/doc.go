// Package ginidem adapts the middleware of package httpidem to gin.
//
//	tenant, binding := httpidem.ByAuthorization(engine) // who the caller is, from the Authorization header
//	idem := httpidem.New(engine, &httpidem.Options{Tenant: tenant, Binding: binding, Key: httpidem.Required})
//	router.POST("/orders", ginidem.Middleware(idem), createOrder)
//
// docs/rpc.md has a whole program, with a store in Redis.
//
// A 500 of createOrder is stored and replayed like any other answer, for the whole retention, since
// it may have come after an effect. If createOrder certainly did nothing, it calls
// c.Header("Idempotency-Outcome", "not-executed") before it sends the status, and the next request
// runs.
//
// Put it after the middleware that authenticates, logs and recovers (gin.Default does the latter
// two), on the routes or groups that it is for. What comes after it in the chain is the work that
// runs once, other middleware included. The attempt is in the context of c.Request:
// retrysafe.AttemptFrom(c.Request.Context()).
package ginidem
