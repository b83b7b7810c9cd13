// Package rpcidem makes calls between services safe to repeat, whatever the protocol: the
// interceptors of gRPC (adapters/grpcidem) and Connect (adapters/connectidem) and the middleware of
// Kratos (adapters/kratosidem) are thin layers over it. What it promises over RPC is what package
// httpidem promises over HTTP; the suite in rpcidem/rpcidemtest shows it for each.
//
// A client sends a key with a call, in the metadata idempotency-key, one for each logical action
// and the same one with every retry. The server runs the method once for each tenant, method and
// key, and gives repeats the first answer, errors of the method included. The codes are those of
// gRPC, which Connect shares; a refusal of this package carries a reason (google.rpc.ErrorInfo,
// domain [Domain]), and a time to come again (google.rpc.RetryInfo) exactly where another try may
// be answered differently.
package rpcidem
