// Package ginidem adapts the middleware of package httpidem to gin.
//
//	idem := httpidem.New(engine, &httpidem.Options{Tenant: userOf})
//	router.POST("/orders", ginidem.Middleware(idem), createOrder)
//
// Put it after the middleware that authenticates, logs and recovers (gin.Default does the latter
// two), on the routes or groups that it is for. What comes after it in the chain is the work that
// runs once, other middleware included. The attempt is in the context of c.Request:
// retrysafe.AttemptFrom(c.Request.Context()).
package ginidem
