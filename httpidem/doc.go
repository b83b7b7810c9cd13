// Package httpidem makes HTTP handlers safe to repeat. A request that carries an Idempotency-Key
// runs once; every duplicate gets the first status, headers and body.
//
//	engine := retrysafe.New(store, nil)
//	idem := httpidem.New(engine, &httpidem.Options{Tenant: userOf})
//	mux.Handle("POST /orders", idem.Handler(http.HandlerFunc(createOrder)))
//
// It works with every router that takes func(http.Handler) http.Handler. Put it after
// authentication, so that only an authenticated caller can get a stored answer. The header follows
// draft-ietf-httpapi-idempotency-key-header. Errors are problem documents (RFC 9457); docs/problems
// explains their codes.
//
// [Transport] is the client side: it retries a request with one key, and only where that is safe.
package httpidem
