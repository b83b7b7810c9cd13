package storetest

import (
	"context"
	"slices"
	"testing"
)

// Run tests a store against the contract. It calls open once for each clause, with that clause's t,
// for a fresh and empty store; use t.Cleanup to close it. Clauses run in parallel.
func Run(t *testing.T, open func(t *testing.T) Backend, f Features) {
	t.Helper()
	for _, c := range clauses {
		if c.claimed != nil && !c.claimed(f) || f.Clauses != nil && !slices.Contains(f.Clauses, c.id) {
			continue
		}
		t.Run(c.id, func(t *testing.T) {
			t.Parallel()
			c.runOn(testingT{t}, open(t), f)
		})
	}
}

// clause is one clause of the contract, by its id in docs/guarantees.md.
type clause struct {
	id  string
	run func(*env)
	// alone: its subtests share the whole store (a server that hangs, records that a sweep removes)
	// and do not run in parallel.
	alone bool
	// claimed reports whether the clause concerns the store; nil: every store.
	claimed func(Features) bool
}

var clauses = []clause{
	{id: "claims", run: claimsClause},
	{id: "S1", run: s01Win},
	{id: "S2", run: s02InProgress},
	{id: "S3", run: s03Replay, alone: true}, // it counts the round trips of the whole store
	{id: "S4", run: s04Precedence},
	{id: "S5", run: s05Takeover},
	{id: "S6", run: s06Ownership},
	{id: "S7", run: s07Repeats},
	{id: "S8", run: s08Retention},
	{id: "S9", run: s09Fences},
	{id: "S10", run: s10Bytes},
	{id: "S11", run: s11Contexts, alone: true},
	{id: "S12", run: s12Issue, claimed: func(f Features) bool { return f.Issuer }},
	{id: "S13", run: s13Clocks},
	{id: "S14", run: s14Sweep, alone: true, claimed: func(f Features) bool { return f.Sweeper }},
	{id: "S15", run: s15NotAfter, alone: true},
	{id: "S16", run: s16InDoubt},
	{id: "S17", run: s17Resolve},
	{id: "S18", run: s18Transactions, alone: true, claimed: func(f Features) bool { return f.Transactions }},
	{id: "S19", run: s19Progress},
	{id: "S20", run: s20Worked},
	{id: "S21", run: s21DoubtSince},
	{id: "S22", run: s22Finish, claimed: func(f Features) bool { return !f.Light }},
	{id: "S23", run: s23Forget, claimed: func(f Features) bool { return f.Forgetter }},
	{id: "Limit", run: limitClause, claimed: func(f Features) bool { return f.Limiter }},
	{id: "Usage", run: usageClause, claimed: func(f Features) bool { return f.UsageReader }},
	{id: "Notify", run: notifyClause, claimed: func(f Features) bool { return f.Notifier }},
	{id: "Batch", run: batchClause, claimed: func(f Features) bool { return f.Batcher }},
	{id: "List", run: listClause, claimed: func(f Features) bool { return f.Lister }},
}

func (c *clause) runOn(t tb, b Backend, f Features) {
	t.Helper()
	if err := b.checkFeatures(f); err != nil {
		t.Fatalf("%v", err)
	}
	c.run(newEnv(t, b, f.withDefaults(), c.id, c.alone))
}

// tb is what a clause needs of a test. Run uses a *testing.T; the tests of the suite use a recorder
// of failures.
type tb interface {
	Helper()
	Context() context.Context
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	// subtest runs a subtest.
	subtest(name string, parallel bool, f func(tb))
}

type testingT struct{ *testing.T }

func (t testingT) subtest(name string, parallel bool, f func(tb)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		if parallel {
			t.Parallel()
		}
		f(testingT{t})
	})
}
