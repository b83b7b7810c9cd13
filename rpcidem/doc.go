// Package rpcidem makes calls between services safe to repeat over any RPC protocol. The
// interceptors of gRPC (adapters/grpcidem) and Connect (adapters/connectidem) and the middleware of
// Kratos (adapters/kratosidem) are thin layers on it. It guarantees over RPC what package httpidem
// guarantees over HTTP. The suite in rpcidem/rpcidemtest tests each of them.
//
// A client sends a key in the metadata idempotency-key: one key for each logical action, and the
// same key with every retry. The server runs the method once for each tenant, method and key.
// Duplicates get the first answer, also if it is an error of the method. The codes are those of
// gRPC, which Connect shares. A refusal of this package carries a reason (google.rpc.ErrorInfo,
// domain [Domain]). It carries a time to retry after (google.rpc.RetryInfo) exactly if a retry may
// be answered differently.
package rpcidem
