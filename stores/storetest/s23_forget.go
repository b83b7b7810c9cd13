package storetest

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

func (e *env) forget(r storeapi.Record) error {
	e.Helper()
	s, ok := e.Store.(storeapi.Forgetter)
	assert.True(e, ok, "a store that claims Forgetter implements it")
	return s.ForgetAnswer(e.ctx, storeapi.ForgetRequest{Key: r.Key, Fence: r.Fence})
}

// wantForgotten wants that the record is what it was, without what tells of a person.
func (e *env) wantForgotten(before storeapi.Record, what string) {
	e.Helper()
	got := e.lookup(before.Key)
	a := &got.Answer
	assert.True(e, a.Body == nil && a.Codec == "" && !a.Kept && a.Size == 0, "%s: the answer is %+v", what, *a)
	assert.True(e, got.Fingerprint == nil && got.Binding == nil && got.LastError == "", "%s: the record is %+v", what, got)
	if e.f.Light {
		assert.Equal(e, got.State, before.State, "%s: state", what)
		return
	}
	assert.Equal(e, [3]any{got.State, got.Fence, got.Attempt}, [3]any{before.State, before.Fence, before.Attempt}, "%s: state, fence and attempt", what)
	assert.True(e, got.Owner == before.Owner && got.OnDoubt == before.OnDoubt && got.Issued == before.Issued, "%s: the record is %+v", what, got)
	assert.True(e, isNear(got.Created, before.Created) && isNear(got.Expires, before.Expires), "%s: created %v and expires %v", what, got.Created, got.Expires)
}

// s23Forget: ForgetAnswer removes what a finished record tells of a person. The record stays: no
// call with its key runs, whatever its payload and credential. A record that is not finished, or
// has another fence, is left as it is.
func s23Forget(e *env) {
	for _, s := range []situation{completed, failed} {
		e.runSubtest("what is "+s.name, func(e *env) {
			first := e.newRequest(e.key())
			first.Fingerprint, first.Binding = printA, bindA
			r := s.reach(e, first)
			assert.NoError(e, e.forget(r), "ForgetAnswer")
			e.wantForgotten(r, "the record")
			assert.NoError(e, e.forget(r), "the same again")
			e.wantForgotten(r, "the record, after the same again")
			for _, print := range [][]byte{printA, printB} {
				again := e.newRequest(r.Key)
				again.Fingerprint, again.Binding = print, bindB
				got := e.acquire(again, storeapi.StatusFinished, "a duplicate")
				e.wantAnswered(got, r.State, storeapi.Answer{}, "a duplicate")
			}
			if !e.f.Light {
				_ = e.tryComplete(r, "what a late call has")
				e.wantForgotten(r, "the record, after a late Complete of its holder")
			}
		})
	}
	for _, s := range []situation{running, lapsed, doubted, released} {
		e.runSubtest("what is "+s.name, func(e *env) {
			first := e.newRequest(e.key())
			first.Fingerprint, first.Binding = printA, bindA
			r := s.reach(e, first)
			assert.ErrorIs(e, e.forget(r), storeapi.ErrInProgress, "ForgetAnswer of a record that is not finished")
			e.wantUnchanged(r, "ForgetAnswer")
		})
	}
	for _, s := range situations {
		e.runSubtest("another fence, "+s.name, func(e *env) {
			r := s.reach(e, e.newRequest(e.key()))
			for _, fence := range []storeapi.Fence{0, r.Fence - 1, r.Fence + 1} {
				if fence == r.Fence {
					continue
				}
				other := r
				other.Fence = fence
				assert.ErrorIs(e, e.forget(other), storeapi.ErrFenceChanged, "ForgetAnswer with the fence %d of a record with %d", fence, r.Fence)
			}
			e.wantUnchanged(r, "ForgetAnswer with another fence")
		})
	}
	e.runSubtest("what is absent", func(e *env) {
		key := e.key()
		assert.ErrorIs(e, e.forget(storeapi.Record{Key: key, Fence: 1}), storeapi.ErrFenceChanged, "ForgetAnswer of no record")
		assert.Equal(e, e.lookup(key).State, storeapi.State(0), "state")
	})
	e.runSubtest("a caller that has left", func(e *env) {
		r := completed.reach(e, e.newRequest(e.key()))
		ctx, cancel := context.WithTimeout(e.ctx, time.Hour)
		cancel()
		err := e.Store.(storeapi.Forgetter).ForgetAnswer(ctx, storeapi.ForgetRequest{Key: r.Key, Fence: r.Fence}) //nolint:forcetypeassert,errcheck // forget has looked
		assert.ErrorIs(e, err, context.Canceled, "ForgetAnswer of a caller that has left")
		e.wantUnchanged(r, "ForgetAnswer of a caller that has left")
	})
}
