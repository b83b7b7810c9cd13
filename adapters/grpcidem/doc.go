// Package grpcidem makes gRPC calls safe to repeat. It has interceptors for both sides of unary
// calls.
//
//	server := grpc.NewServer(grpc.ChainUnaryInterceptor(grpcidem.UnaryServer(engine, &rpcidem.Options{Tenant: who})),
//		grpc.ChainStreamInterceptor(grpcidem.StreamServer(nil)))
//	conn, err := grpc.NewClient(addr, grpc.WithChainUnaryInterceptor(grpcidem.UnaryClient(nil)))
//	client.Charge(httpidem.ContextWithKey(ctx, "order-7"), request)
//
// The message, or the status with its details, is stored and replayed. Header and trailer of the
// first answer are not. Package rpcidem documents what a code means for a key. Put the interceptor
// inside of those that authenticate, log and recover, so that they see a panic.
package grpcidem
