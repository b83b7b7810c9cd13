// Package connectidem makes Connect calls safe to repeat: interceptors for both sides of unary
// calls, over the three protocols of Connect.
//
//	path, handler := ordersv1connect.NewOrdersHandler(orders,
//		connect.WithInterceptors(connectidem.Server(engine, &rpcidem.Options{Tenant: who})))
//	client := ordersv1connect.NewOrdersClient(http.DefaultClient, url, connect.WithInterceptors(connectidem.Client(nil)))
//	client.Place(httpidem.ContextWithKey(ctx, "order-7"), connect.NewRequest(order))
//
// What is kept and replayed is the message or the error with its details; header and trailer of the
// first answer are not. What is kept is the same as with gRPC (adapters/grpcidem): behind one
// engine a call that came over one is replayed over the other, in JSON or in binary. What a code
// means for a key is in package rpcidem. Put the interceptor behind those that authenticate, log
// and recover (connect.WithRecover stands before all that come after it), so that a panic reaches
// them.
//
// Methods that are marked as without side effects, which Connect may send by GET, are not guarded:
// there is nothing to guard.
package connectidem
