// Package grpcidem makes gRPC calls safe to repeat: interceptors for both sides of unary calls.
//
//	server := grpc.NewServer(grpc.ChainUnaryInterceptor(grpcidem.UnaryServer(engine, &rpcidem.Options{Tenant: who})),
//		grpc.ChainStreamInterceptor(grpcidem.StreamServer("")))
//	conn, err := grpc.NewClient(addr, grpc.WithChainUnaryInterceptor(grpcidem.UnaryClient(nil)))
//	client.Charge(httpidem.ContextWithKey(ctx, "order-7"), request)
//
// What is kept and replayed is the message or the status with its details; header and trailer of
// the first answer are not. What a code means for a key is in package rpcidem. Put the interceptor
// inside of those that authenticate, log and recover, so that a panic reaches them.
package grpcidem
