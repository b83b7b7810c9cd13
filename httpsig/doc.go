// Package httpsig signs requests between services and verifies them: HTTP Message Signatures
// (RFC 9421) over the method, the host, the path, the query, the body (Content-Digest, RFC 9530),
// its type and the idempotency key, each signature good once.
//
// [Transport] is the client's side. It stands under httpidem.Transport, which repeats a request
// with one idempotency key, so that each try has a signature, a time and a nonce of its own.
// [Verifier] is the server's side: a middleware before httpidem's. It verifies first and claims the
// nonce then, in one call of the store, so that whoever has no key burns nothing. A request that is
// sent again as it was by somebody who has seen it is refused; the retry of the client is replayed.
//
// It is no replacement for TLS: nothing is hidden, answers are not signed, and neither are fields
// that the signature does not cover. docs/httpsig.md says what it defends against and what not.
package httpsig
