package storetest

import (
	"context"
	"strings"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// batchClause: each call of a batch gets the answer that it would get alone, at its place, whatever
// the outcomes of the others.
func batchClause(e *env) {
	e.runSubtest("each call has its own answer", func(e *env) {
		live, done := e.claim(e.newRequest(e.key())), e.claim(e.newRequest(e.key()))
		e.complete(completeRequest(done, "the first answer"))
		wrong, late := e.newRequest(e.key()), e.newRequest(e.key())
		wrong.Key.ID = strings.Repeat("x", storeapi.MaxPart+1)
		late.NotAfter = e.now().Add(-e.short)
		reqs := []storeapi.AcquireRequest{e.newRequest(e.key()), wrong, e.newRequest(live.Key), late, e.newRequest(done.Key), e.newRequest(e.key())}
		got := e.acquireBatch(reqs)
		wantErr := map[int]error{1: storeapi.ErrInvalidKey, 3: storeapi.ErrTooLate}
		want := []storeapi.Status{storeapi.StatusAcquired, 0, storeapi.StatusInProgress, 0, storeapi.StatusFinished, storeapi.StatusAcquired}
		for i, r := range got {
			if wantErr[i] != nil {
				assert.ErrorIs(e, r.Err, wantErr[i], "claim %d of the batch", i)
				continue
			}
			assert.NoError(e, r.Err, "claim %d of the batch", i)
			wantStatus(e, r.Value.Status, want[i], "in a batch")
			assert.Equal(e, r.Value.Record.Key, reqs[i].Key, "key of the answer to claim %d", i)
			e.wantUnchanged(r.Value.Record, "a claim in a batch")
		}
		e.wantAnswered(got[4].Value.Record, storeapi.StateCompleted, rawAnswer("the first answer"), "a repeat in a batch")
		e.wantAbsent(late.Key, "of a claim that came too late")
	})
	e.runSubtest("ends", func(e *env) {
		a, b, c, d := e.claim(e.newRequest(e.key())), e.claim(e.newRequest(e.key())), e.claim(e.newRequest(e.key())), e.claim(e.newRequest(e.key()))
		gone := e.claim(e.newRequest(e.key()))
		e.release(gone)
		stored := e.completeBatch([]storeapi.CompleteRequest{completeRequest(a, "of a"), completeRequest(gone, "of nobody"), completeRequest(b, "of b")})
		assert.NoError(e, stored[0].Err, "Complete in a batch")
		assert.ErrorIs(e, stored[1].Err, storeapi.ErrLeaseLost, "Complete of what was released, in a batch")
		assert.NoError(e, stored[2].Err, "Complete behind one that is refused")
		e.wantAnswered(stored[0].Value, storeapi.StateCompleted, rawAnswer("of a"), "the record that a batch returns")
		e.wantUnchanged(stored[0].Value, "a Complete in a batch")
		e.wantAnswered(e.lookup(b.Key), storeapi.StateCompleted, rawAnswer("of b"), "an answer that was kept in a batch")

		errs, err := e.batcher().ReleaseBatch(e.ctx, []storeapi.ReleaseRequest{releaseRequest(c), releaseRequest(a), doubtRequest(d)})
		e.wantErrors(errs, err, "ReleaseBatch", nil, storeapi.ErrLeaseLost, nil)
		assert.Equal(e, e.lookup(c.Key).State, storeapi.StateReleased, "state after a Release in a batch")
		doubt := e.lookup(d.Key)
		assert.True(e, doubt.InDoubt() && doubt.Cause == "panic", "in doubt by a batch: %v", doubt.State)
	})
	e.runSubtest("leases", func(e *env) {
		req := e.newRequest(e.key())
		req.Lease = e.short
		a, gone := e.claim(req), e.claim(e.newRequest(e.key()))
		e.release(gone)
		extend := func(r storeapi.Record) storeapi.ExtendRequest {
			return storeapi.ExtendRequest{Key: r.Key, Owner: r.Owner, Fence: r.Fence, Lease: e.long}
		}
		so, far := extend(a), progressAnswer(1, "so far")
		so.Progress = &far
		errs, err := e.batcher().ExtendBatch(e.ctx, []storeapi.ExtendRequest{extend(gone), so})
		e.wantErrors(errs, err, "ExtendBatch", storeapi.ErrLeaseLost, nil)
		now := e.lookup(a.Key)
		assert.True(e, now.LeaseLeft > e.short, "the lease is renewed: %v left", now.LeaseLeft)
		e.wantProgress(now, far, "kept in a batch")
	})
	e.runSubtest("one key several times", func(e *env) {
		for range 8 { // several times, so that it does not succeed by chance
			first, second := e.newRequest(e.key()), e.newRequest(e.key())
			second.Key = first.Key
			got := e.acquireBatch([]storeapi.AcquireRequest{first, e.newRequest(e.key()), first, second})
			for i, want := range []storeapi.Status{storeapi.StatusAcquired, storeapi.StatusAcquired, storeapi.StatusAcquired, storeapi.StatusInProgress} {
				assert.NoError(e, got[i].Err, "claim %d", i)
				wantStatus(e, got[i].Value.Status, want, "of a key that is in the batch several times")
			}
			r := got[0].Value.Record
			assert.Equal(e, got[2].Value.Record.Fence, r.Fence, "fence of the owner's repeat")
			stored := e.completeBatch([]storeapi.CompleteRequest{completeRequest(r, "the first answer"), completeRequest(r, "another")})
			for _, s := range stored {
				assert.NoError(e, s.Err, "Complete")
				e.wantAnswered(s.Value, storeapi.StateCompleted, rawAnswer("the first answer"), "the stored answer")
			}
		}
	})
	e.runSubtest("repeated", func(e *env) {
		var reqs []storeapi.AcquireRequest
		for range 20 {
			reqs = append(reqs, e.newRequest(e.key()))
		}
		first, again := e.acquireBatch(reqs), e.acquireBatch(reqs)
		for i := range reqs {
			assert.NoError(e, again[i].Err, "a repeat")
			wantStatus(e, again[i].Value.Status, storeapi.StatusAcquired, "a repeat of the same owner, in a batch")
			assert.Equal(e, again[i].Value.Record.Fence, first[i].Value.Record.Fence, "fence of a repeat")
		}
	})
	e.runSubtest("many at once", func(e *env) {
		keys := make([]storeapi.StoreKey, 20)
		for i := range keys {
			keys[i] = e.key()
		}
		all := callAtOnce(crowd, func(n int) map[storeapi.StoreKey]storeapi.BatchResult[storeapi.Acquired] {
			reqs := make([]storeapi.AcquireRequest, len(keys))
			for i := range keys { // each batch in another order
				reqs[i] = e.newRequest(keys[(i+n)%len(keys)])
			}
			results, err := e.batcher().AcquireBatch(e.ctx, reqs)
			got := map[storeapi.StoreKey]storeapi.BatchResult[storeapi.Acquired]{}
			for i, r := range results {
				got[reqs[i].Key] = r
			}
			if err != nil {
				got[keys[0]] = storeapi.BatchResult[storeapi.Acquired]{Err: err}
			}
			return got
		})
		for _, key := range keys {
			won := 0
			for _, got := range all {
				assert.NoError(e, got[key].Err, "a claim beside other batches")
				if got[key].Value.Status == storeapi.StatusAcquired {
					won++
				}
			}
			assert.Equal(e, won, 1, "winners of a key among %d batches", crowd)
		}
	})
	e.runSubtest("nothing, and nobody who waits for it", func(e *env) {
		assert.Equal(e, len(e.acquireBatch(nil)), 0, "answers to no claims")
		ctx, cancel := context.WithCancel(e.ctx)
		cancel()
		req := e.newRequest(e.key())
		results, err := e.batcher().AcquireBatch(ctx, []storeapi.AcquireRequest{req})
		assert.True(e, err != nil || len(results) == 1 && results[0].Err != nil, "a batch whose context has ended: %v %v", results, err)
		e.wantAbsent(req.Key, "of a batch whose context had ended")
	})
}

func (e *env) batcher() storeapi.Batcher {
	e.Helper()
	b, ok := e.Store.(storeapi.Batcher)
	assert.True(e, ok, "the store implements Batcher")
	return b
}

// acquireBatch makes a batch and wants an answer for each call.
func (e *env) acquireBatch(reqs []storeapi.AcquireRequest) []storeapi.BatchResult[storeapi.Acquired] {
	e.Helper()
	results, err := e.batcher().AcquireBatch(e.ctx, reqs)
	assert.NoError(e, err, "AcquireBatch")
	assert.Equal(e, len(results), len(reqs), "answers to a batch")
	return results
}

// completeBatch is like acquireBatch, for Complete.
func (e *env) completeBatch(reqs []storeapi.CompleteRequest) []storeapi.BatchResult[storeapi.Record] {
	e.Helper()
	results, err := e.batcher().CompleteBatch(e.ctx, reqs)
	assert.NoError(e, err, "CompleteBatch")
	assert.Equal(e, len(results), len(reqs), "answers to a batch")
	return results
}

// wantErrors wants these errors for the calls of a batch.
func (e *env) wantErrors(got []error, err error, what string, want ...error) {
	e.Helper()
	assert.NoError(e, err, "%s", what)
	assert.Equal(e, len(got), len(want), "answers to %s", what)
	for i := range want {
		if want[i] == nil {
			assert.NoError(e, got[i], "call %d of %s", i, what)
		} else {
			assert.ErrorIs(e, got[i], want[i], "call %d of %s", i, what)
		}
	}
}
