// Package httpsig signs requests between services and verifies them: HTTP Message Signatures
// (RFC 9421) over the method, the host, the path, the query, the body (Content-Digest, RFC 9530),
// its type and the idempotency key. Each signature can be used once.
//
// [Transport] is the client side. Put it under httpidem.Transport, which retries a request with one
// idempotency key, so that each try has its own signature, time and nonce. [Verifier] is the server
// side: a middleware before httpidem's. It verifies the signature first and then claims the nonce,
// in one call of the store, so a caller without a key uses up no nonce. It refuses a request that
// someone who has seen it sends again; a retry of the client is replayed.
//
// It does not replace TLS: nothing is encrypted, and neither answers nor fields that the signature
// does not cover are signed. docs/httpsig.md says what it protects against and what not.
package httpsig
