package storetest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
	"github.com/retrysafe/retrysafe/stores/storetest/internal/packed"
)

var faultyKey = storeapi.StoreKey{Namespace: "n", Layer: "fn", Key: storeapi.Key{Operation: "charge", ID: "1"}}

func acquireRequest() storeapi.AcquireRequest {
	return storeapi.AcquireRequest{
		Key: faultyKey, Owner: storeapi.Owner{1}, Lease: time.Minute, Retention: time.Hour, OnDoubt: storeapi.Refuse,
		Fingerprint: []byte("\x01print"),
	}
}

// faultAtFirst returns a hook that affects the first call of the op.
func faultAtFirst(op string, f storetest.Fault) func(string, int) storetest.Fault {
	return func(got string, call int) storetest.Fault {
		if got == op && call == 1 {
			return f
		}
		return 0
	}
}

func newFaulty(hook func(string, int) storetest.Fault) (*storetest.Faulty, *storetest.Clock) {
	clock := storetest.NewClock()
	return storetest.NewFaulty(packed.New(clock.Now), hook), clock
}

func TestFaultyPassesTheSuite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) storetest.Backend {
		s, clock := newFaulty(nil)
		return storetest.Backend{Store: s, Advance: clock.Advance}
	}, claimsClause)
}

func TestFaultyLosesARequest(t *testing.T) {
	t.Parallel()
	s, _ := newFaulty(faultAtFirst("acquire", storetest.LoseRequest))
	_, err := s.Acquire(t.Context(), acquireRequest())
	assert.ErrorIs(t, err, storetest.ErrFault, "the call that is lost")
	r, err := s.Lookup(t.Context(), faultyKey)
	assert.NoError(t, err, "Lookup")
	assert.Equal(t, r.State, 0, "state after a lost request")
	a, err := s.Acquire(t.Context(), acquireRequest())
	assert.NoError(t, err, "the second call")
	assert.Equal(t, a.Status, storeapi.StatusAcquired, "the second call")
	assert.Equal(t, s.Calls("acquire"), 2, "calls of acquire")
}

func TestFaultyLosesAReply(t *testing.T) {
	t.Parallel()
	s, _ := newFaulty(faultAtFirst("acquire", storetest.LoseReply))
	_, err := s.Acquire(t.Context(), acquireRequest())
	assert.ErrorIs(t, err, storetest.ErrFault, "the call whose reply is lost")
	r, err := s.Lookup(t.Context(), faultyKey)
	assert.NoError(t, err, "Lookup")
	assert.Equal(t, r.State, storeapi.StateInProgress, "state after a lost reply")
}

func TestFaultyDelays(t *testing.T) {
	t.Parallel()
	s, clock := newFaulty(func(op string, call int) storetest.Fault {
		if op == "acquire" && call <= 3 {
			return storetest.Delay
		}
		return 0
	})
	ctx, cancel := context.WithCancel(t.Context())
	req := acquireRequest()
	_, err := s.Acquire(ctx, req)
	assert.ErrorIs(t, err, storetest.ErrFault, "the call that is delayed")
	req.Fingerprint[1] = '?' // the caller may reuse its memory
	second := acquireRequest()
	second.Owner = storeapi.Owner{2}
	_, err = s.Acquire(ctx, second)
	assert.ErrorIs(t, err, storetest.ErrFault, "the second call that is delayed")
	late := acquireRequest()
	late.Owner, late.NotAfter = storeapi.Owner{3}, clock.Now().Add(time.Second)
	_, err = s.Acquire(ctx, late)
	assert.ErrorIs(t, err, storetest.ErrFault, "the third call that is delayed")
	cancel() // the callers have left

	assert.Equal(t, s.Pending(), 3, "requests that wait")
	r, err := s.Lookup(t.Context(), faultyKey)
	assert.NoError(t, err, "Lookup")
	assert.Equal(t, r.State, 0, "state before the requests are delivered")

	clock.Advance(time.Minute)
	errs := s.Deliver()
	assert.Equal(t, len(errs), 3, "requests that were delivered")
	assert.NoError(t, errs[0], "the first to be delivered")
	assert.NoError(t, errs[1], "the second to be delivered")
	assert.ErrorIs(t, errs[2], storeapi.ErrTooLate, "one that is delivered after its limit")
	r, err = s.Lookup(t.Context(), faultyKey)
	assert.NoError(t, err, "Lookup")
	assert.Equal(t, r.Owner, storeapi.Owner{1}, "owner: they are delivered in their order")
	assert.Equal(t, string(r.Fingerprint), "\x01print", "fingerprint as it was sent")
	assert.Equal(t, s.Pending(), 0, "requests that wait")
	assert.Equal(t, len(s.Deliver()), 0, "requests that are delivered twice")
}

// An answer that is overtaken by its own release: this is why an engine never releases an attempt
// that it has tried to complete.
func TestFaultyOvertakes(t *testing.T) {
	t.Parallel()
	s, _ := newFaulty(faultAtFirst("complete", storetest.Delay))
	a, err := s.Acquire(t.Context(), acquireRequest())
	assert.NoError(t, err, "Acquire")
	_, err = s.Complete(t.Context(), storeapi.CompleteRequest{
		Key: faultyKey, Owner: a.Record.Owner, Fence: a.Record.Fence, State: storeapi.StateCompleted,
	})
	assert.ErrorIs(t, err, storetest.ErrFault, "Complete that is delayed")
	err = s.Release(t.Context(), storeapi.ReleaseRequest{Key: faultyKey, Owner: a.Record.Owner, Fence: a.Record.Fence})
	assert.NoError(t, err, "Release that overtakes it")
	assert.ErrorIs(t, s.Deliver()[0], storeapi.ErrLeaseLost, "Complete that was overtaken")
}

func TestFaultyBlocks(t *testing.T) {
	t.Parallel()
	for fault, want := range map[storetest.Fault]storeapi.State{
		storetest.Block:      0,
		storetest.BlockReply: storeapi.StateInProgress,
	} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := newFaulty(faultAtFirst("acquire", fault))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			begun := time.Now()
			_, err := s.Acquire(ctx, acquireRequest())
			assert.ErrorIs(t, err, context.DeadlineExceeded, "the call that is blocked")
			assert.Equal(t, time.Since(begun), time.Minute, "time until the call returned")
			r, err := s.Lookup(t.Context(), faultyKey)
			assert.NoError(t, err, "Lookup")
			assert.Equal(t, r.State, want, "state after fault %d", fault)
		})
	}
}

// TestFaultyAsksAboutEachCall shows the hook's arguments: a chaos test prints them to repeat a run.
func TestFaultyAsksAboutEachCall(t *testing.T) {
	t.Parallel()
	asked := map[string]int{}
	s, _ := newFaulty(func(op string, call int) storetest.Fault {
		asked[op] = call
		return storetest.LoseRequest
	})
	ctx := t.Context()
	for range 2 {
		_, _ = s.Acquire(ctx, acquireRequest())
		_ = s.Extend(ctx, storeapi.ExtendRequest{})
		_, _ = s.Complete(ctx, storeapi.CompleteRequest{})
		_ = s.Release(ctx, storeapi.ReleaseRequest{})
		_, _ = s.Lookup(ctx, faultyKey)
		_, _ = s.Issue(ctx, storeapi.IssueRequest{})
		_, _ = s.List(ctx, storeapi.ListRequest{})
		_, _ = s.Sweep(ctx, 1)
		_, _ = s.AcquireBatch(ctx, nil)
		_, _ = s.ExtendBatch(ctx, nil)
		_, _ = s.CompleteBatch(ctx, nil)
		_, _ = s.ReleaseBatch(ctx, nil)
	}
	assert.Equal(t, asked, map[string]int{
		"acquire": 2, "extend": 2, "complete": 2, "release": 2, "lookup": 2, "issue": 2, "list": 2, "sweep": 2,
		"acquirebatch": 2, "extendbatch": 2, "completebatch": 2, "releasebatch": 2,
	}, "calls that the hook was asked about")
}

// A chaos test decides only by the op and the number of the call, so that a run can be repeated.
func ExampleFaulty() {
	clock := storetest.NewClock()
	store := storetest.NewFaulty(packed.New(clock.Now), func(op string, call int) storetest.Fault {
		if op == "complete" && call%2 == 1 {
			return storetest.LoseReply // applied, but the caller does not get the reply
		}
		return 0
	})
	_ = store // pass it to retrysafe.New
	// Output:
}
