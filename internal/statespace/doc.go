// Package statespace searches what can become of one key: every order in which the requests of a
// few callers and an operator can reach the store, be lost, be late, or come twice, while callers
// pause and crash, leases lapse, records expire and the store's clock is set back.
//
// The store is the real one. The exhaustive search drives the functions of internal/protocol on a
// row, which can be copied and hashed; the random one drives memstore, and compares its answers
// with such a row's. The callers are a model, since an engine cannot be stopped between two steps.
// They keep the engine's rules E1 and E2. What depends on time they may do at any time: give up,
// let a lease lapse, stop repeating. So they do all that the engine does, and more: they release
// after the loss of a lease whatever the error, which E4 allows only to work that has said that it
// did nothing.
//
// properties_test.go says what must hold after each step. A table of variants, each with one rule
// of the store or of the callers broken, shows that each property can fail.
//
// An operator only asks until it is told that nothing was done; then it may settle the record, or
// work itself, as [retrysafe.Policy].Reconcile lets a caller.
//
// Not modelled: heartbeats other than as an Extend at any time, waiters other than as callers that
// ask again, fingerprints and bindings, issued keys, several keys, transactions, and stores that
// forget what they have confirmed. A copy of an Acquire that was answered may leave a claim that
// nobody waits for: E2 follows only what was not answered.
//
// A failure prints the shortest sequence of steps, or a random one with its seed, which
// RETRYSAFE_SEED repeats. RETRYSAFE_SOAK=long switches on the tests whose names begin with
// TestSoak. None is built with the race detector: it would make the search five times as long, and
// steps are taken one at a time.
package statespace
