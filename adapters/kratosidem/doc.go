// Package kratosidem makes calls between services of Kratos (v2) safe to repeat: middleware for
// both sides, over both of its transports.
//
//	idem := kratosidem.Server(engine, &rpcidem.Options{Tenant: who})
//	kgrpc.NewServer(kgrpc.Middleware(recovery.Recovery(), idem))
//	khttp.NewServer(khttp.Middleware(recovery.Recovery(), idem))
//	conn, err := kgrpc.DialInsecure(ctx, kgrpc.WithEndpoint(addr), kgrpc.WithMiddleware(kratosidem.Client(nil)))
//	client.Charge(httpidem.ContextWithKey(ctx, "order-7"), request)
//
// What is kept and replayed is the message or the error with its reason, metadata and details;
// header and trailer of the first answer are not. An operation has one name over both transports,
// so that behind one engine a call that came over one is replayed over the other, and over plain
// gRPC (adapters/grpcidem). What a code means for a key is in package rpcidem. Messages have to be
// protocol buffers, requests and replies: those of routes that are written by hand, too. Put the
// middleware behind those that authenticate, log and recover.
//
// A refusal is an error of Kratos with the reason of package rpcidem, the HTTP status that Kratos
// gives its code, and in its metadata the domain ([MetadataDomain]) and, where another try may be
// answered differently, the time to wait ([MetadataDelay]). Over gRPC it has ErrorInfo and
// RetryInfo as well.
//
// Streams are not guarded. Kratos calls its stream middleware for each message, so that this one
// does not belong there; kgrpc.StreamInterceptor(grpcidem.StreamServer("")) refuses streams that
// bring a key. Requests by GET and HEAD pass.
package kratosidem
