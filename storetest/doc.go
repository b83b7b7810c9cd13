// Package storetest is the store contract as a test suite: whoever writes a [retrysafe.Store] runs
// it and needs no tests of his own for what the contract says.
//
//	func TestStore(t *testing.T) {
//		t.Parallel()
//		storetest.Run(t, func(t *testing.T) storetest.Backend {
//			clock := storetest.NewClock()
//			return storetest.Backend{Store: mystore.New(&mystore.Options{Clock: clock.Now}), Advance: clock.Advance}
//		}, storetest.Features{Issuer: true, Sweeper: true})
//	}
//
// Each clause of the contract is a subtest with the clause's id, S1 to S18, in a file of its own;
// "go test -run '/S7'" runs one. Each gets a fresh store. A clause that the store does not claim in
// [Features] is not run. A subtest beside them, "claims", compares the claims with the store,
// "List" checks what a [retrysafe.Lister] shows, "Notify" whom a [retrysafe.Notifier] tells,
// "Batch" what a [retrysafe.Batcher] answers, and "Limit" what a [retrysafe.Limiter] counts.
//
// [RunWrapper] checks that a wrapper hides nothing of the store below it, [Benchmark] measures the
// four calls that matter, and [Faulty] loses requests and replies on purpose.
package storetest
