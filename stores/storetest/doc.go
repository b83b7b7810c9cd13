// Package storetest tests a [storeapi.Store] against the store contract. A store that runs it
// needs no tests of its own for the contract.
//
//	func TestStore(t *testing.T) {
//		t.Parallel()
//		storetest.Run(t, func(t *testing.T) storetest.Backend {
//			clock := storetest.NewClock()
//			return storetest.Backend{Store: mystore.New(&mystore.Options{Now: clock.Now}), Advance: clock.Advance}
//		}, storetest.Features{Issuer: true, Sweeper: true})
//	}
//
// Each clause of the contract is a subtest named by its id, S1 to S22, in a file of its own; "go
// test -run '/S7'" runs one. Each gets a fresh store. Clauses that the store does not claim in
// [Features] are not run. Further subtests: "claims" compares the claims with the store, "List"
// checks what a [storeapi.Lister] lists, "Notify" which watchers a [storeapi.Notifier] notifies,
// "Batch" what a [storeapi.Batcher] answers, "Limit" what a [storeapi.Limiter] counts, and "Usage"
// what a [storeapi.UsageReader] reads of it.
//
// [RunWrapper] checks that a wrapper hides nothing of the store below it, [Benchmark] measures the
// four most frequent calls, and [Faulty] loses requests and replies on purpose.
package storetest
