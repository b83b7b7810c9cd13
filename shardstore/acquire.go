package shardstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
)

// Acquire implements [storeapi.Store]. While a key moves, a claim must succeed at both homes.
func (s *Store) Acquire(ctx context.Context, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	if err := check(ctx, req.Key); err != nil {
		return storeapi.Acquired{}, err
	}
	for range rounds {
		p, err := s.place(ctx, req.Key)
		var got storeapi.Acquired
		switch {
		case err != nil:
		case p.moves():
			got, err = s.acquireBoth(ctx, p, req)
		default:
			got, err = s.acquireOne(ctx, p, req)
		}
		if !errors.Is(err, errMoved) {
			return got, err
		}
	}
	return storeapi.Acquired{}, errRestless
}

// acquireOne claims a key that does not move. The claim is valid no longer than the last look at
// the map.
func (s *Store) acquireOne(ctx context.Context, p *place, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	got, err := p.home.Acquire(ctx, p.bounded(req))
	switch {
	case errors.Is(err, storeapi.ErrTooLate):
		return got, s.late(ctx, p, req.Limit())
	case err != nil:
		return got, failed(p.name, err)
	case got.Record.Now.After(p.until()): // a refusal by an old map
		s.forget(p.name)
		return got, errMoved
	case got.Status == storeapi.StatusAcquired && s.old(p):
		return s.confirm(ctx, p, req, got)
	}
	return got, nil
}

// confirm looks at the map again after a successful claim whose answer took long. The shard may
// have decided in time, but shown the record to others only after a change of maps had listed it
// there: because of a slow disk, or of a replica that it waited for. If the key has left this
// shard, the claim is given back before anything runs.
func (s *Store) confirm(ctx context.Context, p *place, req storeapi.AcquireRequest, got storeapi.Acquired) (storeapi.Acquired, error) {
	_, err := s.look(ctx, p.m, p.name)
	if err == nil {
		return got, nil
	}
	m := s.Map()
	if home, _ := m.Home(req.Key); errors.Is(err, errMoved) && home == p.name {
		return got, err // the repeated call is won there again
	}
	if back := p.home.Release(ctx, giveBack(&req, &got.Record)); back != nil && !errors.Is(back, storeapi.ErrLeaseLost) {
		return got, failedUnsure(p.name, back)
	}
	return got, err
}

// bounded returns the request with the limits under which it may be sent to the home.
func (p *place) bounded(req storeapi.AcquireRequest) storeapi.AcquireRequest {
	req.Until, req.MinFence = earlier(req.Until, p.until()), max(req.MinFence, p.m.Floor)
	return req
}

// late distinguishes a request that came too late from one that was only sent after an old look at
// the map.
func (s *Store) late(ctx context.Context, p *place, asked time.Time) error {
	r, err := s.look(ctx, p.m, p.name)
	switch {
	case err != nil:
		return err
	case !asked.IsZero() && r.now.After(asked):
		return storeapi.ErrTooLate
	}
	if p.moves() {
		if _, err := s.look(ctx, p.m, p.nextName); err != nil {
			return err
		}
	}
	return errMoved
}

// acquireBoth claims a moving key. It claims it first at the old home, which is the only home for
// processes that do not know of the move yet. Then it claims it at the new one, which is the only
// home for processes that know that the move has ended.
func (s *Store) acquireBoth(ctx context.Context, p *place, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	there, err := p.next.Lookup(ctx, req.Key)
	if err != nil {
		return storeapi.Acquired{}, failed(p.nextName, err)
	}
	if there.Now.After(p.nextUntil()) {
		s.forget(p.nextName)
		return storeapi.Acquired{}, errMoved
	}
	s.mu.Lock()
	raised := s.raised
	s.mu.Unlock()
	first := p.bounded(req)
	// Larger than any fence that the next home would give by itself, so that both homes give the
	// same one.
	first.MinFence = max(first.MinFence, there.Fence+1, raised+1, storeapi.Fence(max(p.nextUntil().UnixMicro(), 0)+1))
	got, err := p.home.Acquire(ctx, first)
	switch {
	case errors.Is(err, storeapi.ErrTooLate):
		return got, s.late(ctx, p, req.Limit())
	case err != nil:
		return got, failed(p.name, err)
	case got.Status != storeapi.StatusAcquired:
		return s.refused(ctx, p, got, &there)
	}
	return s.acquireNext(ctx, p, req, &got.Record, &there)
}

// refused confirms an unsuccessful answer of the old home, by the record at the next home or by
// another look at the map. Processes that know that the move has ended ask the next home alone.
func (s *Store) refused(ctx context.Context, p *place, got storeapi.Acquired, there *storeapi.Record) (storeapi.Acquired, error) {
	here := &got.Record
	alike := alike(there, here)
	switch {
	case got.Status == storeapi.StatusFinished && alike && there.State.Finished():
		return got, nil
	case got.Status == storeapi.StatusFinished && alike && there.State == storeapi.StateInProgress:
		// The process that finished it has not reached the next home. Complete it there, since
		// callers that ask there alone would not know.
		if _, err := p.next.Complete(ctx, copyTo(here, there)); err == nil || !errors.Is(err, storeapi.ErrLeaseLost) {
			return got, failedIf(p.nextName, err)
		}
	case got.Status != storeapi.StatusFinished && alike && there.State == here.State:
		return got, nil
	}
	return got, s.still(ctx, p.m)
}

// copyTo returns a Complete that stores the outcome of a finished record, for the rest of its
// retention, in an unfinished one.
func copyTo(rec, there *storeapi.Record) storeapi.CompleteRequest {
	keep := storeapi.Forever
	if !rec.Expires.IsZero() {
		keep = max(rec.Expires.Sub(rec.Now), time.Microsecond)
	}
	return storeapi.CompleteRequest{
		Key: rec.Key, Owner: there.Owner, Fence: there.Fence, State: rec.State, Answer: rec.Answer, Retention: keep, Quiet: true,
	}
}

// acquireNext continues at the next home after a successful claim at the old one.
func (s *Store) acquireNext(ctx context.Context, p *place, req storeapi.AcquireRequest, won, there *storeapi.Record) (storeapi.Acquired, error) {
	next := following(p, req, won, there)
	got, err := p.next.Acquire(ctx, next)
	if err == nil && got.Status == storeapi.StatusInDoubt && got.Record.Owner != req.Owner {
		// The old home has admitted this caller, and this is not the record of its previous holder.
		// If the move has not ended, no caller was admitted here alone. So this record is what is
		// left of an attempt that was taken over without this home, or that has expired there.
		if err = s.still(ctx, p.m); err == nil {
			next.IfFence, next.Force, next.MustBeIssued = got.Record.Fence, false, false
			got, err = p.next.Acquire(ctx, next)
		}
	}
	switch {
	case errors.Is(err, storeapi.ErrTooLate):
		if err = s.late(ctx, p, req.Limit()); errors.Is(err, storeapi.ErrTooLate) {
			// The old home has applied it, so the caller must not take ErrTooLate as certain.
			err = fmt.Errorf("%w: the request came in time to shard %q and too late to %q", storeapi.ErrUnavailable, p.name, p.nextName)
		}
		return got, err
	case err != nil:
		return got, failedUnsure(p.nextName, err)
	case got.Status != storeapi.StatusAcquired:
		return s.undo(ctx, p, req, won, got)
	case got.Record.Fence != won.Fence:
		return got, s.misfit(ctx, p, req, won, &got.Record)
	}
	won.LeaseLeft = min(won.LeaseLeft, got.Record.LeaseLeft)
	return storeapi.Acquired{Status: storeapi.StatusAcquired, Record: *won}, nil
}

// following returns the request for the next home, where the record of the old home continues.
func following(p *place, req storeapi.AcquireRequest, won, there *storeapi.Record) storeapi.AcquireRequest {
	// The time that is left, converted to the next home's clock. It counts from a moment before the
	// old home reported its time.
	by := there.Now.Sub(won.Now)
	req.NotAfter, req.Until = moved(req.NotAfter, by), earlier(moved(req.Until, by), p.nextUntil())
	if there.State == 0 || there.Owner != req.Owner { // after that, the fence would be another one
		req.Until = earlier(req.Until, time.UnixMicro(int64(won.Fence))) //nolint:gosec // fences stay below 2^53
	}
	rec := *won
	rec.DoubtSince = moved(rec.DoubtSince, by)
	req.MinFence, req.Copy = won.Fence, &rec
	req.Fingerprint, req.Binding, req.OnDoubt = won.Fingerprint, won.Binding, won.OnDoubt
	switch {
	case req.IfFence != 0 && there.State == storeapi.StateFailed:
		// the old home has reopened the failure, and this record is its copy
		req.IfFence = there.Fence
	case there.State == 0 || there.Fence != req.IfFence:
		req.IfFence, req.Force = 0, false
	}
	req.MustBeIssued = req.MustBeIssued && there.Issued
	return req
}

// undo gives back a claim at the old home that the next one has refused.
func (s *Store) undo(ctx context.Context, p *place, req storeapi.AcquireRequest, won *storeapi.Record, got storeapi.Acquired) (storeapi.Acquired, error) {
	err := p.home.Release(ctx, giveBack(&req, won))
	if err != nil && !errors.Is(err, storeapi.ErrLeaseLost) {
		return got, failedUnsure(p.name, err)
	}
	got.Record = shifted(got.Record, won.Now)
	return got, nil
}

// giveBack returns the release of a claim that no caller was given.
func giveBack(req *storeapi.AcquireRequest, won *storeapi.Record) storeapi.ReleaseRequest {
	return storeapi.ReleaseRequest{
		Key: req.Key, Owner: req.Owner, Fence: won.Fence, Cause: "unanswered", Quiet: true,
		// That this caller did nothing says nothing about the attempt before it.
		InDoubt: req.IfFence != 0 || won.OnDoubt == storeapi.Reexecute && won.Attempt > 1,
	}
}

// misfit gives back a claim to which the next home gave another fence, and remembers that fence.
func (s *Store) misfit(ctx context.Context, p *place, req storeapi.AcquireRequest, won, got *storeapi.Record) error {
	s.mu.Lock()
	s.raised = max(s.raised, got.Fence)
	s.mu.Unlock()
	back := storeapi.ReleaseRequest{Key: req.Key, Owner: req.Owner, Fence: got.Fence, Cause: "unanswered", Quiet: true}
	if err := p.next.Release(ctx, back); err != nil {
		return failedUnsure(p.nextName, err)
	}
	return fmt.Errorf("%w: shard %q gave the fence %d where %d was asked for; if that stays, it does not keep AcquireRequest.MinFence",
		storeapi.ErrUnavailable, p.nextName, got.Fence, won.Fence)
}

// moved converts a time to another clock; zero stays zero.
func moved(t time.Time, by time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(by)
}

// shifted converts a record to the clock of the old home, which callers of a moving key see.
func shifted(rec storeapi.Record, now time.Time) storeapi.Record {
	by := now.Sub(rec.Now)
	// Created stays: it is what the record began with, at whichever shard, and part of KeyFor.
	for _, t := range []*time.Time{&rec.Now, &rec.Updated, &rec.Expires, &rec.DoubtSince} {
		*t = moved(*t, by)
	}
	return rec
}

// failedUnsure is for calls after one that was applied: their error never says that nothing was
// applied.
func failedUnsure(name string, err error) error {
	return fmt.Errorf("%w: shard %q: %s", storeapi.ErrUnavailable, name, err.Error())
}

func failedIf(name string, err error) error {
	if err == nil {
		return nil
	}
	return failed(name, err)
}
