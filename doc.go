// Package retrysafe makes an operation safe to repeat.
//
// A double click, a client's retry, a redelivered message, a replayed request: each takes effect
// once, and every repeat gets the first answer (or, where that is wanted, a clear refusal).
//
//	engine := retrysafe.New(memstore.New(nil), nil)
//	res, err := retrysafe.Do(ctx, engine, retrysafe.Key{Tenant: user, Operation: "charge", ID: key},
//		func(ctx context.Context) (Receipt, error) { return charge(ctx, card, amount) },
//		retrysafe.WithPayload(request))
//
// # What is promised
//
// Under [Refuse], the default, the work starts at most once: when nobody knows whether an attempt
// took effect (its process died, its answer was lost) the key is in doubt and stays so until
// somebody resolves it. Under [Reexecute] it starts at least once, and the repeats that can be told
// apart are suppressed. [DoTx] keeps the record in the database transaction of the effect: there
// the effect happens exactly once. docs/guarantees.md has each promise with the test that shows it.
//
// # How an attempt ends
//
//   - completed: it happened, the answer is kept and replayed;
//   - failed: a final refusal ([Permanent]), kept and replayed;
//   - released: certainly nothing happened ([NothingDone]), the next call runs;
//   - in doubt: it may have happened (a crash, a panic, any other error under Refuse).
//
// An attempt holds a lease that the engine extends while the work runs. Its context ends in time
// before the lease does, and its [Fence] lets the resource refuse a holder that was paused.
package retrysafe
