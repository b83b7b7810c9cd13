package storetest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
)

// Check runs the suite without a *testing.T and returns the failures by clause. Clauses and their
// subtests run one after the other.
func Check(ctx context.Context, open func(cleanup func(func())) Backend, f Features) map[string][]string {
	failures := map[string][]string{}
	for _, c := range clauses {
		if c.claimed != nil && !c.claimed(f) {
			continue
		}
		r := recordRun(ctx, c.id, func(t tb) { c.runOn(t, open(t.Cleanup), f) })
		if len(r.failures) > 0 {
			failures[c.id] = r.failures
		}
	}
	return failures
}

// CheckWrapper runs RunWrapper's checks and returns the failures.
func CheckWrapper(ctx context.Context, wrap Wrap) []string {
	return recordRun(ctx, "wrapper", func(t tb) { runWrapper(t, wrap) }).failures
}

// Clauses returns the ids of all subtests of Run, for a store that claims everything.
func Clauses() (ids []string) {
	for _, c := range clauses {
		ids = append(ids, c.id)
	}
	return ids
}

// recorder replaces a *testing.T: it records a failure, which ends the subtest, not the test.
type recorder struct {
	ctx  context.Context
	name string

	mu       sync.Mutex // guards what follows
	failures []string
	cleanups []func()
}

func recordRun(ctx context.Context, name string, f func(tb)) *recorder {
	ctx, cancel := context.WithCancel(ctx)
	r := &recorder{ctx: ctx, name: name}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			cancel()
			for len(r.cleanups) > 0 {
				last := r.cleanups[len(r.cleanups)-1]
				r.cleanups = r.cleanups[:len(r.cleanups)-1]
				last()
			}
		}()
		f(r)
	}()
	<-done
	return r
}

func (r *recorder) Helper() {}

func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, r.name+": "+fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) subtest(name string, _ bool, f func(tb)) {
	s := recordRun(r.ctx, r.name+"/"+name, f)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, s.failures...)
}
