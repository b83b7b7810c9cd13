// Package httpidem makes HTTP handlers safe to repeat: a request that carries an Idempotency-Key
// runs once, and every repeat gets the first status, headers and body again.
//
//	engine := retrysafe.New(store, nil)
//	idem := httpidem.New(engine, &httpidem.Options{Tenant: userOf})
//	mux.Handle("POST /orders", idem.Handler(http.HandlerFunc(createOrder)))
//
// It works with every router that takes func(http.Handler) http.Handler. Put it behind
// authentication: a replay is an access. The header follows
// draft-ietf-httpapi-idempotency-key-header; errors are problem documents (RFC 9457) whose codes
// docs/problems explains.
//
// [Transport] is the client's side: it repeats a request with one key, and only where that is safe.
package httpidem
