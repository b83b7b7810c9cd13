package storetest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// env is the environment of one subtest: the store, its clock, and keys that no other subtest uses.
type env struct {
	tb
	Backend
	f     Features
	name  string
	alone bool
	// ctx ends long after every call should have. So a store that hangs fails its own subtest and
	// not the whole run.
	ctx context.Context
	// short is a lease that a test can wait for; long is one that does not end while a test runs.
	short, long time.Duration
	// brink is how shortly before an expiry a test still checks; in real time it is half a lease.
	brink time.Duration

	salt string
	keys *atomic.Int64
}

const (
	patience  = 5 * time.Minute
	retention = 24 * time.Hour
	// crowd is the number of concurrent callers of which exactly one may succeed.
	crowd = 16
)

func newEnv(t tb, b Backend, f Features, name string, alone bool) *env {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	e := &env{
		tb: t, Backend: b, f: f, name: name, alone: alone, ctx: ctx, short: f.Unit, long: time.Hour,
		brink: f.Unit / 2, salt: randomHex(4), keys: new(atomic.Int64),
	}
	if b.Advance != nil {
		e.short, e.brink = 10*time.Second, 2*precision
	}
	return e
}

// runSubtest runs a subtest on the same store. In real time subtests run in parallel, since most of
// them wait. A clock that is moved by hand moves for all of them, so with it they run one after the
// other.
func (e *env) runSubtest(name string, f func(*env)) {
	e.Helper()
	e.subtest(name, e.Advance == nil && !e.alone, func(t tb) {
		f(newEnv(t, e.Backend, e.f, e.name+" "+name, e.alone))
	})
}

// key returns a key that was never used.
func (e *env) key() storeapi.StoreKey {
	id := fmt.Sprintf("%s-%d", e.salt, e.keys.Add(1))
	return storeapi.StoreKey{Namespace: "storetest", Layer: "fn", Key: storeapi.Key{Tenant: "tenant", Operation: e.name, ID: id}}
}

func newOwner() (o storeapi.Owner) {
	_, _ = rand.Read(o[:]) // never fails
	return o
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// now returns the store's time, from a lookup of a key without a record.
func (e *env) now() time.Time {
	e.Helper()
	r, err := e.Store.Lookup(e.ctx, e.key())
	assert.NoError(e, err, "Lookup of an absent key")
	assert.True(e, !r.Now.IsZero(), "Lookup of an absent key tells the store's time")
	return r.Now
}

// passTime lets d pass on the store's clock.
func (e *env) passTime(d time.Duration) {
	e.Helper()
	if e.Advance != nil {
		e.Advance(d)
		return
	}
	e.waitRealTime(d)
}

// waitRealTime lets d pass in real time. Nowhere else does the suite wait only for time to pass.
func (e *env) waitRealTime(d time.Duration) {
	e.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.ctx.Done():
		e.Fatalf("the test ended while it waited for %v", d)
	}
}

// passUntil lets time pass until the store's clock shows at least at.
func (e *env) passUntil(at time.Time) {
	e.Helper()
	for range 100 {
		left := at.Sub(e.now())
		if left <= 0 {
			return
		}
		e.passTime(left)
	}
	e.Fatalf("the store's clock does not move: it has not reached %v", at)
}

// passLease lets the lease of the record expire.
func (e *env) passLease(r storeapi.Record) {
	e.Helper()
	e.passUntil(leaseEnd(r))
}

// awaitReturn returns the result of a call whose context has ended, and fails if the call does not
// return in time.
func awaitReturn[R any](e *env, what string, call func() R) (r R) {
	e.Helper()
	done := make(chan R, 1)
	go func() { done <- call() }()
	timer := time.NewTimer(e.f.Grace)
	defer timer.Stop()
	select {
	case r = <-done:
	case <-timer.C:
		e.Fatalf("%s: got no answer %v after its context ended, want the call to return with it", what, e.f.Grace)
	}
	return r
}

// callAtOnce makes n calls that start together.
func callAtOnce[R any](n int, call func(i int) R) []R {
	start, done := make(chan struct{}), make(chan struct{}, n)
	results := make([]R, n)
	for i := range n {
		go func() {
			<-start
			results[i] = call(i)
			done <- struct{}{}
		}()
	}
	close(start)
	for range n {
		<-done
	}
	return results
}
