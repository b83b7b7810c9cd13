package shardstore_test

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/memstore"
	"github.com/retrysafe/retrysafe/shardstore"
	"github.com/retrysafe/retrysafe/storeapi"
	"github.com/retrysafe/retrysafe/storetest"
)

// finish continues a change until it is done or fails.
func finish(t *testing.T, all shards, names []string, clock *storetest.Clock) error {
	t.Helper()
	for range 20 {
		_, left, err := shardstore.Step(t.Context(), all, names)
		if err != nil || left == 0 {
			return err
		}
		clock.Advance(left)
	}
	t.Fatal("the change does not end")
	return nil
}

// TestCopies: work that was finished before a move has the same answer after it, however often it
// moves, and for exactly its retention. A change does not wait for it.
func TestCopies(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	all := memories(3, clock)
	s := open(t, shards{"a": all["a"]}, nil)
	kept := win(t, s, keyOf(1), 1)
	complete(t, s, kept, storeapi.Forever)
	short := win(t, s, keyOf(2), 1)
	complete(t, s, short, 10*time.Minute)
	issued := ask(keyOf(3), 1)
	_, err := s.Issue(t.Context(), storeapi.IssueRequest{Key: issued.Key, Owner: storeapi.Owner{3}, Retention: time.Hour})
	assert.NoError(t, err, "issue")
	issued.MustBeIssued, issued.Fingerprint, issued.Binding = true, []byte("\x01one"), []byte("\x01two")
	got, err := s.Acquire(t.Context(), issued)
	assert.NoError(t, err, "redeem")
	complete(t, s, got.Record, time.Hour)

	for _, names := range [][]string{{"b"}, {"c"}, {"a", "b"}, {"a"}, {"c"}} {
		assert.NoError(t, finish(t, all, names, clock), "change to %q", names)
		s = open(t, all, nil)
		for _, key := range []int{1, 2} {
			again, err := s.Acquire(t.Context(), ask(keyOf(key), 9))
			assert.NoError(t, err, "a repeat on %q", names)
			assert.True(t, again.Status == storeapi.StatusFinished && string(again.Record.Answer.Body) == "done", "key %d on %q is told %+v", key, names, again)
		}
		complete(t, s, kept, time.Hour) // its first caller never got the answer to Complete
		again, err := s.Acquire(t.Context(), issued)
		assert.NoError(t, err, "a repeat of a redeemed key on %q", names)
		assert.Equal(t, again.Status, storeapi.StatusFinished, "a redeemed key on %q", names)
		other := issued
		other.Owner, other.Fingerprint = storeapi.Owner{7}, []byte("\x01other")
		again, err = s.Acquire(t.Context(), other)
		assert.NoError(t, err, "another payload on %q", names)
		assert.Equal(t, again.Status, storeapi.StatusMismatch, "another payload on %q", names)
	}
	clock.Advance(10 * time.Minute)
	win(t, s, keyOf(2), 2)
	rec, err := s.Lookup(t.Context(), keyOf(1))
	assert.True(t, err == nil && rec.Expires.IsZero(), "what is kept for ever: %+v, %v", rec, err)
}

// TestCopiesOfFailures: a copied failure can be reopened during the move as before, and after it by
// the fence that the record then has.
func TestCopiesOfFailures(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	all := memories(2, clock)
	s := open(t, shards{"a": all["a"]}, nil)
	for i := range 2 {
		failed := win(t, s, keyOf(i), 1)
		_, err := s.Complete(t.Context(), storeapi.CompleteRequest{
			Key: failed.Key, Owner: failed.Owner, Fence: failed.Fence, State: storeapi.StateFailed, Retention: time.Hour,
		})
		assert.NoError(t, err, "Complete")
	}
	doubt := win(t, s, keyOf(5), 1) // blocks the move
	announce(t, all, []string{"b"}, clock)
	s = open(t, all, nil)
	assert.True(t, finish(t, all, []string{"b"}, clock) != nil, "a doubt holds the move up")
	reopen := func(i int) storeapi.Record {
		rec, err := s.Lookup(t.Context(), keyOf(i))
		assert.NoError(t, err, "look")
		req := ask(keyOf(i), 3)
		req.IfFence = rec.Fence
		got, err := s.Acquire(t.Context(), req)
		assert.NoError(t, err, "reopen")
		assert.Equal(t, got.Status, storeapi.StatusAcquired, "status of a failure that is opened again")
		return got.Record
	}
	complete(t, s, reopen(0), time.Hour)
	complete(t, s, doubt, time.Hour)
	assert.NoError(t, finish(t, all, []string{"b"}, clock), "the end of the move")
	complete(t, s, reopen(1), time.Hour)
	for i := range 2 {
		got, err := s.Acquire(t.Context(), ask(keyOf(i), 9))
		assert.NoError(t, err, "a repeat")
		assert.True(t, got.Status == storeapi.StatusFinished && string(got.Record.Answer.Body) == "done", "key %d after the move: %+v", i, got)
	}
}

// TestDoubtOfACopy: a failure under Refuse is copied with that policy. If an operator reopens the
// copy and its outcome is then in doubt, it stays in doubt until an operator resolves it.
func TestDoubtOfACopy(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	all := memories(2, clock)
	s := open(t, shards{"a": all["a"]}, nil)
	failed := win(t, s, keyOf(1), 1)
	_, err := s.Complete(t.Context(), storeapi.CompleteRequest{
		Key: failed.Key, Owner: failed.Owner, Fence: failed.Fence, State: storeapi.StateFailed, Retention: time.Hour,
	})
	assert.NoError(t, err, "Complete")
	assert.NoError(t, finish(t, all, []string{"b"}, clock), "the move")
	s = open(t, all, nil)
	rec, err := s.Lookup(t.Context(), keyOf(1))
	assert.NoError(t, err, "Lookup")
	req := ask(keyOf(1), 2)
	req.IfFence = rec.Fence
	got, err := s.Acquire(t.Context(), req)
	assert.True(t, err == nil && got.Status == storeapi.StatusAcquired, "reopened: %+v, %v", got, err)
	assert.True(t, got.Record.Attempt == 2 && got.Record.Created.Equal(failed.Created), "the record goes on: %+v", got.Record)
	assert.NoError(t, s.Release(t.Context(), storeapi.ReleaseRequest{Key: rec.Key, Owner: req.Owner, Fence: got.Record.Fence, InDoubt: true}), "in doubt")
	clock.Advance(1000 * time.Hour)
	loose := ask(keyOf(1), 3)
	loose.OnDoubt = storeapi.Reexecute
	got, err = s.Acquire(t.Context(), loose)
	assert.True(t, err == nil && got.Status == storeapi.StatusInDoubt, "weeks later: %+v, %v", got, err)
}

// TestDoubtOverAMove: a doubt that is asked about in a move is as old as before, although the next
// home has another clock.
func TestDoubtOverAMove(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{-5 * time.Hour, 5 * time.Hour} {
		clock := storetest.NewClock()
		all := memories(2, clock)
		all["b"] = memstore.New(&memstore.Options{Now: func() time.Time { return clock.Now().Add(skew) }})
		win(t, open(t, shards{"a": all["a"]}, nil), keyOf(1), 1)
		clock.Advance(3 * time.Hour)
		announce(t, all, []string{"b"}, clock)
		s := open(t, all, nil)
		before, err := s.Lookup(t.Context(), keyOf(1))
		assert.NoError(t, err, "look")
		assert.True(t, before.InDoubt() && before.Age() > time.Hour, "before the move: %+v", before)
		at := clock.Now()
		req := ask(keyOf(1), 2)
		req.Asks, req.IfFence = true, before.Fence
		got, err := s.Acquire(t.Context(), req)
		assert.True(t, err == nil && got.Status == storeapi.StatusAcquired, "ask: %v, %v", got.Status, err)
		same := func(s storeapi.Store, what string) {
			t.Helper()
			rec, err := s.Lookup(t.Context(), keyOf(1))
			assert.NoError(t, err, "look")
			off := (rec.Age() - before.Age() - clock.Now().Sub(at)).Abs()
			assert.True(t, off < time.Minute, "%s, with a clock %v ahead: %v old, and %v before the move", what, skew, rec.Age(), before.Age())
		}
		same(s, "asked about")
		same(all["b"], "asked about, at the next home")
		err = s.Release(t.Context(), storeapi.ReleaseRequest{Key: req.Key, Owner: req.Owner, Fence: got.Record.Fence, InDoubt: true})
		assert.NoError(t, err, "no answer")
		assert.NoError(t, finish(t, all, []string{"b"}, clock), "the end of the move")
		same(open(t, all, nil), "after the move")
	}
}
