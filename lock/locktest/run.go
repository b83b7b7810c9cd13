package locktest

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/lock"
)

// Config configures the tests. Only Open is required.
type Config struct {
	// Open returns a backend on the same server each time. If backends use connections, it has a
	// connection of its own, since it stands for another process. Open registers what must be
	// closed with t.Cleanup.
	Open func(t testing.TB) lock.Backend
	// Crash ends a backend as kill -9 would. It is needed if locks end with a session. If it is
	// nil, locks end with their lease.
	Crash func(lock.Backend)
	// Lists says that the backend implements [lock.Lister] (L12).
	Lists bool
	// ListsTwice says that the backend may list a lock twice while its server resizes its hash
	// table, as one does that others use meanwhile. L12 then lists again until no lock is.
	ListsTwice bool
	// Short is a lease that the tests wait for; default 300 ms. If it is too short to test anything
	// on a busy machine, the tests use a longer one.
	Short time.Duration
	// Rounds is how often each of the eight callers of L1 acquires the lock; default 25.
	Rounds int
	// Patience is how long something that should happen at once may take on a busy machine; default
	// 3 min. It must be below [long].
	Patience time.Duration
}

// longLease is a lease that does not end during a test.
const longLease = 10 * time.Minute

// Run runs the suite.
func Run(t *testing.T, c Config) {
	t.Helper()
	for _, one := range clauses {
		t.Run(one.id+"/"+one.name, func(t *testing.T) {
			t.Parallel()
			if err := checkClause(t, c, one); err != nil {
				t.Errorf("%s: %v", one.id, err)
			}
		})
	}
}

type clause struct {
	id, name string
	run      func(*env) error
}

var clauses = []clause{
	{"L1", "one at a time", oneHolderAtATime},
	{"L2", "told at once", otherCallerGetsErrHeld},
	{"L3", "tried again", repeatedTryIsGranted},
	{"L4", "fences grow", fencesGrow},
	{"L5", "unlock of another", onlyHolderUnlocks},
	{"L6", "extend", onlyHolderExtends},
	{"L7", "left alone", abandonedLockEnds},
	{"L8", "woken", waiterIsWoken},
	{"L9", "wait given up", abandonedWaitEnds},
	{"L10", "names", namesAreBytes},
	{"L11", "contexts", endedContextLocksNothing},
	{"L12", "listed", listShowsHolders},
	{"L13", "passed", holderPasses},
}

func checkClause(t testing.TB, c Config, one clause) error {
	if c.Short == 0 {
		c.Short = 300 * time.Millisecond
	}
	if c.Rounds == 0 {
		c.Rounds = 25
	}
	if c.Patience == 0 {
		c.Patience = 3 * time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), c.Patience)
	defer cancel()
	return one.run(&env{Config: c, t: t, ctx: ctx, a: c.Open(t), b: c.Open(t), name: "locktest/" + rand.Text()})
}

// env is what a clause works with: two backends, for two processes, and a name that no other clause
// uses.
type env struct {
	Config
	t    testing.TB
	ctx  context.Context
	a, b lock.Backend
	name string
}

// newRequest returns a request of a new owner.
func (e *env) newRequest(lease time.Duration) lock.Request {
	r := lock.Request{Name: e.name, Lease: lease}
	_, _ = rand.Read(r.Owner[:])
	return r
}

// acquireFree acquires a lock that must be free. On a slow machine a short lease can be over before
// the backend has it: then it tries again.
func (e *env) acquireFree(b lock.Backend, r lock.Request) (retrysafe.Fence, error) {
	g, err := b.TryLock(e.ctx, r)
	for err != nil && !isHeld(err) && r.Lease <= e.Short && e.ctx.Err() == nil {
		g, err = b.TryLock(e.ctx, r)
	}
	if err != nil {
		return 0, fmt.Errorf("TryLock of a lock that is free: %w", err)
	}
	if g.Fence == 0 {
		return 0, fmt.Errorf("the grant has no fence")
	}
	return g.Fence, nil
}

// acquireWaiting acquires a lock as soon as it is free.
func (e *env) acquireWaiting(b lock.Backend, r lock.Request) (lock.Grant, error) {
	for {
		g, err := b.TryLock(e.ctx, r)
		if !isHeld(err) {
			return g, err
		}
		if err := b.Wait(e.ctx, r); err != nil {
			return g, fmt.Errorf("Wait: %w", err)
		}
	}
}
