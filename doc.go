// Package retrysafe makes an operation safe to repeat.
//
// A double click, a client's retry, a redelivered message and a replayed request each take effect
// once. Every duplicate gets the first answer, or a clear refusal if the policy says so.
//
//	engine := retrysafe.New(memstore.New(nil), nil)
//	res, err := retrysafe.Do(ctx, engine, retrysafe.Key{Tenant: user, Operation: "charge", ID: key},
//		func(ctx context.Context) (Receipt, error) { return charge(ctx, card, amount) },
//		retrysafe.WithPayload(request))
//
// # Where things are
//
//   - To run work once: [Do], [DoTx], [Engine], [Options], [Operation], and for callers that cannot
//     pass a function [Engine.Begin] and [Attempt].
//   - To say what shall happen: [Policy], [Limits], the options of a call ([CallOption]), and the
//     marks for errors of the work ([NothingDone], [Permanent], [InDoubt]).
//   - To do long work in parts: [Step], [StepTx], [Resumable], [Worker].
//   - To look and resolve: [Engine.Lookup], [Record], [Engine.Resolve], [Resolution], [Trace].
//   - What went wrong: [Error], the Err… variables, [Retryable].
//
// A store is memstore, sqlstore, redisstore or shardstore; nearstore and sealstore wrap one.
// Package storeapi has what a store of one's own implements.
//
// # Guarantees
//
// Under [Refuse], the default, the work starts at most once. If it is unknown whether an attempt
// took effect (its process died, its answer was lost), the key is in doubt until an operator or
// [Policy].Reconcile resolves it. Under [Reexecute] the work starts at least once, and duplicates
// that can be recognised are suppressed. [DoTx] keeps the record in the database transaction of the
// effect, so the effect happens exactly once. docs/guarantees.md lists each guarantee with its
// test.
//
// # Outcomes of an attempt
//
//   - completed: the work took effect; its answer is stored and replayed;
//   - failed: the work refused for good ([Permanent]); the refusal is stored and replayed;
//   - released: certainly nothing happened ([NothingDone]); the next call runs;
//   - in doubt: the work may have taken effect (a crash, a panic, any other error under Refuse).
//
// An attempt holds a lease, which the engine extends while the work runs. The attempt's context
// ends before the lease expires. With the attempt's [Fence], the resource can refuse a holder that
// was paused.
package retrysafe
