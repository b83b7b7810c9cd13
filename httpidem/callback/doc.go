// Package callback handles each notification of a third party ("the payment succeeded") once. A
// provider that does not get the answer that it expects sends the notification again, for hours or
// days, also if only the answer was lost.
//
//	m := callback.New(engine, &callback.Options{
//		Provider: "stripe", ID: "/id", Verify: callback.Stripe(secret),
//		Policy: retrysafe.Policy{OnDoubt: retrysafe.Reexecute},
//	})
//	mux.Handle("POST /webhooks/stripe", m.Handler(handler))
//
// The key is the id that the provider gave the event. The signature is checked first, over the
// bytes as received, so that only the provider can use up an id. The handler runs under a guard. A
// duplicate of a finished event gets a success without running it. A duplicate that arrives while
// the handler runs gets 409 with Retry-After, and the provider retries.
//
// # What the handler's answer does
//
// Below 400 the event is done, but for 307 and 308. From 500 on it depends on Policy.OnDoubt, which
// must be set. Under Reexecute the event is open again, and the provider's next try runs it: put
// the work into retrysafe.DoTx, so that a run that took effect is not run again. Under Refuse it is
// in doubt and is not run again by itself: an operator (retrysafe keys) or Policy.Reconcile
// resolves it. Of the statuses 400 to 499, those that mean "not you" or "not now", such as 401 and
// 429 ([httpidem.NotRun]), leave the event open, and so do 409 and 423 under Reexecute. Any other
// is stored, and duplicates get it: this event will never succeed. With the field
// Idempotency-Outcome the handler decides itself: not-executed opens the event again, executed
// stores the answer.
package callback
