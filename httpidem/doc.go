// Package httpidem makes HTTP handlers safe to repeat. A request that carries an Idempotency-Key
// runs once; every duplicate gets the first status, headers and body.
//
//	engine := retrysafe.New(store, nil)
//	idem := httpidem.New(engine, &httpidem.Options{Tenant: userOf})
//	mux.Handle("POST /orders", idem.Handler(http.HandlerFunc(createOrder)))
//
// A good key is a UUID that the client makes once for a payment and sends with every retry of it.
//
// Every answer of the handler is stored and replayed for the whole retention, 24 hours by default,
// also a 400. A 500 is no exception under Refuse: the handler may have had an effect before it
// failed. Under Reexecute an answer of 500 and above is not stored, and the next request runs
// ([After5xx]), and neither are 409 and 423. Under both policies 307 and 308 to the same path, 401,
// 403, 407, 408, 421, 425, 426, 428, 429 and 431 are not stored, unless the handler sets the header
// "Idempotency-Outcome: executed". A handler that certainly did nothing sets "Idempotency-Outcome:
// not-executed" with any status, and the next request runs. [AnswerOptions].Classify can decide the
// outcome by status and header.
//
// It works with every router that takes func(http.Handler) http.Handler. Put it after
// authentication, so that only an authenticated caller can get a stored answer. The header follows
// draft-ietf-httpapi-idempotency-key-header. Errors are problem documents (RFC 9457); docs/problems
// explains their codes.
//
// [Transport] is the client side: it retries a request with one key, and only where that is safe.
package httpidem
