package shardstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe/storeapi"
)

// Extend implements [storeapi.Store].
func (s *Store) Extend(ctx context.Context, req storeapi.ExtendRequest) error {
	return s.held(ctx, req.Key, false, func(shard storeapi.Store) error { return shard.Extend(ctx, req) })
}

// Complete implements [storeapi.Store]. The next home gets what the first one has stored.
func (s *Store) Complete(ctx context.Context, req storeapi.CompleteRequest) (rec storeapi.Record, err error) {
	first := true
	err = s.held(ctx, req.Key, false, func(shard storeapi.Store) error {
		kept, err := shard.Complete(ctx, req)
		if err == nil && first {
			rec, first = kept, false
			req.State, req.Answer = kept.State, kept.Answer
		}
		return err
	})
	if errors.Is(err, storeapi.ErrLeaseLost) {
		// A change may have copied the outcome that an earlier try of this call has stored.
		if kept, look := s.Lookup(ctx, req.Key); look == nil && kept.State.Finished() && kept.Owner == copyOwner(req.Owner, req.Fence) {
			return kept, nil
		}
	}
	if err != nil {
		return storeapi.Record{}, err
	}
	return rec, nil
}

// Release implements [storeapi.Store]. It releases the key at the next home first: the key is free
// when the old home has released it.
func (s *Store) Release(ctx context.Context, req storeapi.ReleaseRequest) error {
	return s.held(ctx, req.Key, true, func(shard storeapi.Store) error { return shard.Release(ctx, req) })
}

// held makes a holder's call at each home, at the next one first or last. If the next home does not
// have the record, or another holder's, the key was claimed before the move began. Then the old
// home alone decides, unless the move has ended meanwhile.
func (s *Store) held(ctx context.Context, key storeapi.StoreKey, nextFirst bool, call func(storeapi.Store) error) error {
	if err := check(ctx, key); err != nil {
		return err
	}
	for range rounds {
		p, err := s.place(ctx, key)
		switch {
		case err != nil:
		case p.moves():
			err = s.heldTwice(ctx, p, nextFirst, call)
		default:
			if err = failedIf(p.name, call(p.home)); errors.Is(err, storeapi.ErrLeaseLost) {
				if _, moved := s.look(ctx, p.m, p.name); moved != nil {
					err = moved
				}
			}
		}
		if !errors.Is(err, errMoved) {
			return err
		}
	}
	return errRestless
}

func (s *Store) heldTwice(ctx context.Context, p *place, nextFirst bool, call func(storeapi.Store) error) error {
	var next error
	if nextFirst {
		if next = call(p.next); next != nil && !errors.Is(next, storeapi.ErrLeaseLost) {
			return failed(p.nextName, next)
		}
	}
	home := call(p.home)
	if home != nil && !errors.Is(home, storeapi.ErrLeaseLost) {
		if nextFirst {
			return failedUnsure(p.name, home)
		}
		return failed(p.name, home)
	}
	if !nextFirst && home == nil {
		if next = call(p.next); next != nil && !errors.Is(next, storeapi.ErrLeaseLost) {
			return failedUnsure(p.nextName, next)
		}
	}
	if home == nil && next == nil {
		return nil
	}
	if err := s.still(ctx, p.m); err != nil {
		return err
	}
	return home
}

// Lookup implements [storeapi.Store].
func (s *Store) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	if err := check(ctx, key); err != nil {
		return storeapi.Record{}, err
	}
	for range rounds {
		rec, err := s.lookup(ctx, key)
		if !errors.Is(err, errMoved) {
			return rec, err
		}
	}
	return storeapi.Record{}, errRestless
}

func (s *Store) lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	p, err := s.place(ctx, key)
	if err != nil {
		return storeapi.Record{}, err
	}
	rec, err := p.home.Lookup(ctx, key)
	switch {
	case err != nil:
		return rec, failed(p.name, err)
	case rec.Now.After(p.until()):
		s.forget(p.name)
		return rec, errMoved
	case !p.moves():
		return rec, nil
	}
	there, err := p.next.Lookup(ctx, key)
	switch {
	case err != nil:
		return rec, failed(p.nextName, err)
	case there.State == rec.State && there.Owner == rec.Owner && there.Fence == rec.Fence:
		rec.Attempt = max(rec.Attempt, there.Attempt)
		return rec, nil
	}
	if err := s.still(ctx, p.m); err != nil {
		return rec, err
	}
	if rec.State == 0 { // it has expired slightly earlier than at the next home
		return shifted(there, rec.Now), nil
	}
	return rec, nil
}

// Issue implements [storeapi.Issuer].
func (s *Store) Issue(ctx context.Context, req storeapi.IssueRequest) (storeapi.Status, error) {
	if err := check(ctx, req.Key); err != nil {
		return 0, err
	}
	for range rounds {
		status, err := s.issue(ctx, req)
		if !errors.Is(err, errMoved) {
			return status, err
		}
	}
	return 0, errRestless
}

func (s *Store) issue(ctx context.Context, req storeapi.IssueRequest) (storeapi.Status, error) {
	p, err := s.place(ctx, req.Key)
	if err != nil {
		return 0, err
	}
	home, ok := p.home.(storeapi.Issuer)
	next, okNext := p.next.(storeapi.Issuer)
	if !ok || !okNext {
		return 0, errors.ErrUnsupported
	}
	status, err := home.Issue(ctx, req)
	if err != nil {
		return status, failed(p.name, err)
	}
	if p.moves() && status == storeapi.StatusAcquired {
		if status, err = next.Issue(ctx, req); err != nil {
			return status, failedUnsure(p.nextName, err)
		}
	}
	// Issue has no time limit of its own: a look afterwards shows whether the map was valid.
	at := p.name
	if p.moves() {
		at = p.m.decider()
	}
	if _, err := s.look(ctx, p.m, at); err != nil {
		if errors.Is(err, errMoved) {
			return status, err
		}
		return 0, fmt.Errorf("%w: whether the key was issued is not known", err)
	}
	return status, nil
}
