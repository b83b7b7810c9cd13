// Package callback takes the notifications of third parties ("the payment succeeded") once: a
// provider that does not hear the words it expects sends again, for hours or days, and a lost
// answer is as good as none.
//
//	m := callback.New(engine, &callback.Options{
//		Provider: "stripe", ID: "/id", Verify: callback.Stripe(secret),
//		Policy: retrysafe.Policy{OnDoubt: retrysafe.Reexecute},
//	})
//	mux.Handle("POST /webhooks/stripe", m.Handler(handler))
//
// The key is the id that the provider gave the event. The signature is checked first, over the
// bytes as they came: nobody else can use up an id. The handler runs under a guard; a repeat of
// what it has finished is told success without it, one that comes while it runs is told 409 with
// Retry-After, and the provider comes again.
//
// # What the handler's answer does
//
// Below 400 the event is done. From 500 on it depends on Policy.OnDoubt, which has to be said.
// Under Reexecute the event is open again, and the provider's next try runs it: put the work into
// [retrysafe.DoTx], so that a run that had its effect is not run again. Under Refuse it is in doubt
// and not run again by itself: a person (retrysafe keys) or Policy.Reconcile settles it. Of 400 to
// 499 those that say "not you" or "not now" (401, 403, 407, 408, 409, 421, 423, 425, 429) leave the
// event open; any other is kept, and repeats get it: this event will never do. With the field
// Idempotency-Outcome a handler says it itself: not-executed opens the event again, executed keeps
// the answer.
package callback
