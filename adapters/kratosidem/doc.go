// Package kratosidem makes calls between services of Kratos (v2) safe to repeat. It has middleware
// for both sides, over both of its transports.
//
//	idem := kratosidem.Server(engine, &rpcidem.Options{Tenant: who})
//	kgrpc.NewServer(kgrpc.Middleware(recovery.Recovery(), idem))
//	khttp.NewServer(khttp.Middleware(recovery.Recovery(), idem))
//	conn, err := kgrpc.DialInsecure(ctx, kgrpc.WithEndpoint(addr), kgrpc.WithMiddleware(kratosidem.Client(nil)))
//	client.Charge(httpidem.ContextWithKey(ctx, "order-7"), request)
//
// The message, or the error with its reason, metadata and details, is stored and replayed. Header
// and trailer of the first answer are not. An operation has one name over both transports. So with
// one engine a call that came over one is replayed over the other, and over plain gRPC
// (adapters/grpcidem). Package rpcidem documents what a code means for a key. Requests and replies
// must be protocol buffers, also those of routes that are written by hand. Put the middleware after
// those that authenticate, log and recover.
//
// A refusal is an error of Kratos. It has the reason of package rpcidem and the HTTP status that
// Kratos gives its code. Its metadata has the domain ([DomainMetadata]) and, if a retry may be
// answered differently, the time to wait ([DelayMetadata]). Over gRPC it has ErrorInfo and
// RetryInfo as well.
//
// Streams are not guarded. Kratos calls its stream middleware for each message, so this middleware
// must not be used there. kgrpc.StreamInterceptor(grpcidem.StreamServer(nil)) refuses streams with
// a key. Requests by GET and HEAD pass.
package kratosidem
