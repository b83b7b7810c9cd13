// Package connectidem makes Connect calls safe to repeat. It has interceptors for both sides of
// unary calls, over the three protocols of Connect.
//
//	path, handler := ordersv1connect.NewOrdersHandler(orders,
//		connect.WithInterceptors(connectidem.Server(engine, &rpcidem.Options{Tenant: who})))
//	client := ordersv1connect.NewOrdersClient(http.DefaultClient, url, connect.WithInterceptors(connectidem.Client(nil)))
//	client.Place(httpidem.ContextWithKey(ctx, "order-7"), connect.NewRequest(order))
//
// The message, or the error with its details, is stored and replayed. Header and trailer of the
// first answer are not. The stored form is the same as with gRPC (adapters/grpcidem): with one
// engine a call that came over one is replayed over the other, in JSON or in binary. Package
// rpcidem documents what a code means for a key. Put the interceptor after those that authenticate,
// log and recover (connect.WithRecover stands before all that come after it), so that they see a
// panic.
//
// Methods that are marked as without side effects, which Connect may send by GET, are not guarded:
// they have nothing to guard.
package connectidem
