// Package ginidem puts the middleware of package httpidem into a router of gin.
//
//	idem := httpidem.New(engine, &httpidem.Options{Tenant: userOf})
//	router.POST("/orders", ginidem.Middleware(idem), createOrder)
//
// Put it behind what authenticates, logs and recovers (gin.Default does the latter two), and on the
// routes or groups that it is for: what comes after it in the chain is the work that runs once,
// other middleware included. The attempt is in the context of c.Request:
// retrysafe.AttemptFrom(c.Request.Context()).
package ginidem
