// Package statespace searches all possible histories of one key: every order in which the requests
// of a few callers and an operator can reach the store, be lost, be late, or arrive twice.
// Meanwhile callers pause and crash, leases and records expire, and the store's clock is set back.
//
// The store is the real one. The exhaustive search runs the functions of internal/protocol on a
// row, which can be copied and hashed. The random search runs memstore, and compares its answers
// with those of such a row. The callers are a model, since an engine cannot be stopped between two
// steps. They follow the engine's rules E1 and E2. What depends on time they may do at any time:
// give up, let a lease expire, stop repeating. So they do all that the engine does, and more: they
// release after the loss of a lease whatever the error, which E4 allows only to work that reported
// that it did nothing.
//
// properties_test.go lists what must hold after each step. A table of variants, each with one
// broken rule of the store or of the callers, shows that each property can fail.
//
// An operator only asks until it learns that nothing was done. Then it may settle the record, or do
// the work itself, as retrysafe.Policy.Reconcile allows a caller.
//
// Not modelled: heartbeats except as an Extend at any time, waiters except as callers that ask
// again, fingerprints and bindings, issued keys, several keys, transactions, and stores that lose
// what they have confirmed. A copy of an answered Acquire may leave a claim that no caller waits
// for: E2 follows only unanswered tries.
//
// A failure prints the shortest sequence of steps, or a random sequence with its seed, which
// RETRYSAFE_SEED repeats. RETRYSAFE_SOAK=long enables the tests whose names begin with TestSoak. No
// test is built with the race detector: it would make the search five times as long, and steps run
// one at a time.
package statespace
