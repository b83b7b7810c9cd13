package shardstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
)

// each calls f for every record of a shard except maps, without its body.
func (a atlas) each(ctx context.Context, name string, f func(rec *storeapi.Record) error) error {
	s, err := a.shard(name)
	if err != nil {
		return err
	}
	cannot := fmt.Errorf("shardstore: shard %q cannot list its records, so that nobody can tell what a change would lose: %w", name, errors.ErrUnsupported)
	lister, ok := s.(storeapi.Lister)
	if !ok {
		return cannot
	}
	req := storeapi.ListRequest{Limit: 1000}
	for {
		page, err := lister.List(ctx, req)
		if errors.Is(err, errors.ErrUnsupported) {
			return cannot
		} else if err != nil {
			return failed(name, err)
		}
		if len(page.Unreadable) > 0 { // it is unknown whether it would be lost
			return failed(name, page.Unreadable[0].Err)
		}
		for i := range page.Records {
			if rec := &page.Records[i]; rec.Key.Namespace != namespace {
				if err := f(rec); err != nil {
					return err
				}
			}
		}
		if page.Next == "" {
			return nil
		}
		req.After = page.Next
	}
}

// survey checks the records of a shard that are at home in it by the shards in here, and in another
// one by those in there. It returns a [*BlockedError] if that other home does not have them,
// otherwise the largest of their fences. Returning: the records here are copies, and the keys are
// now there.
func (a atlas) survey(ctx context.Context, name string, here, there []string, returning bool) (most storeapi.Fence, err error) {
	b, unending := &BlockedError{Shard: name, Returning: returning}, false
	err = a.each(ctx, name, func(rec *storeapi.Record) error {
		text, _ := rec.Key.AppendText(nil) // never fails
		home := pick(there, text)
		if home == name || pick(here, text) != name {
			return nil
		}
		most = max(most, rec.Fence)
		known, err := a.known(ctx, name, home, rec, returning)
		if err != nil || known {
			return err
		}
		if b.Records++; b.Records == 1 {
			b.First = rec.Key.Operation
		}
		unending = unending || rec.Expires.IsZero()
		if rec.Expires.After(b.Until) {
			b.Until = rec.Expires
		}
		return nil
	})
	if unending {
		b.Until = time.Time{}
	}
	if err == nil && b.Records > 0 {
		err = b
	}
	return most, err
}

// known reports whether the other home of the key also knows what a record says.
func (a atlas) known(ctx context.Context, name, home string, rec *storeapi.Record, returning bool) (bool, error) {
	released := rec.State == storeapi.StateReleased
	if returning && released && rec.Answer.Codec == "" && !rec.Issued {
		return true, nil // the record that moves here replaces it
	}
	s, err := a.shard(home)
	if err != nil {
		return false, err
	}
	there, err := s.Lookup(ctx, rec.Key)
	same := alike(rec, &there)
	switch {
	case err != nil:
		return false, failed(home, err)
	case returning:
		return same && rec.State.Finished() && there.State == rec.State, nil
	case same && there.State == rec.State:
		return true, nil
	case (rec.State.Finished() || released) && (there.State == 0 || there.State == storeapi.StateReleased):
		return a.copy(ctx, name, home, rec, &there)
	case !same:
		return false, nil
	case rec.State.Finished() && there.State == storeapi.StateInProgress:
		return true, a.finish(ctx, name, home, rec, &there)
	case released && there.State == storeapi.StateInProgress:
		return true, a.release(ctx, home, &there, 0)
	}
	return there.State.Finished(), nil
}

// finish completes at the next home what a process completed only at the old one before it died.
func (a atlas) finish(ctx context.Context, name, home string, listed, there *storeapi.Record) error {
	rec, err := a[name].Lookup(ctx, listed.Key) // with its body
	if err != nil {
		return failed(name, err)
	}
	if !rec.State.Finished() || rec.Owner != listed.Owner {
		return nil // it has expired
	}
	_, err = a[home].Complete(ctx, copyTo(&rec, there))
	return failedIf(home, err)
}

// probe returns a fence that is larger than those of all records that a shard has removed.
func (a atlas) probe(ctx context.Context, name string) (storeapi.Fence, error) {
	s, err := a.shard(name)
	if err != nil {
		return 0, err
	}
	key := storeapi.StoreKey{Namespace: namespace, Layer: "map", Key: storeapi.Key{Operation: "probe", ID: rand.Text()}}
	req := storeapi.AcquireRequest{Key: key, Lease: writeLease, Retention: writeLease, OnDoubt: storeapi.Reexecute}
	_, _ = rand.Read(req.Owner[:]) // never fails
	got, err := s.Acquire(ctx, req)
	if err != nil {
		return 0, failed(name, err)
	}
	return got.Record.Fence, nil // it expires by itself
}

// release releases an attempt that its caller has released at the other home, or that no process
// finishes any more. keep is as in [storeapi.ReleaseRequest].
func (a atlas) release(ctx context.Context, name string, rec *storeapi.Record, keep time.Duration) error {
	err := a[name].Release(ctx, storeapi.ReleaseRequest{
		Key: rec.Key, Owner: rec.Owner, Fence: rec.Fence, Cause: "moved", Retention: keep, Quiet: true,
	})
	if errors.Is(err, storeapi.ErrLeaseLost) {
		return nil
	}
	return failedIf(name, err)
}

// clean removes the unfinished records that an ended move has left in shards that are not the home.
// Those in progress would stay for ever, and the count of a released one is out of date if its key
// comes back. No process uses an earlier map any more.
func (a atlas) clean(ctx context.Context, m *Map) error {
	for _, name := range a.names() {
		// What changes after that may be of a move that another process begins meanwhile.
		_, last, err := a.look(ctx, name, m.Number)
		if err != nil {
			return err
		}
		if next, _, err := a.look(ctx, m.decider(), m.Number+1); next != nil || err != nil {
			return err
		}
		err = a.each(ctx, name, func(rec *storeapi.Record) error {
			if home, _ := m.Home(rec.Key); home == name || rec.Updated.After(last) {
				return nil
			}
			left := *rec
			switch rec.State {
			case storeapi.StateReleased:
				req := storeapi.AcquireRequest{
					Key: rec.Key, IfFence: rec.Fence, Lease: writeLease, Retention: writeLease, OnDoubt: storeapi.Reexecute, Asks: true,
				}
				_, _ = rand.Read(req.Owner[:]) // never fails
				got, err := a[name].Acquire(ctx, req)
				if err != nil || got.Status != storeapi.StatusAcquired {
					return failedIf(name, err)
				}
				left = got.Record
			case storeapi.StateInProgress:
			default:
				return nil
			}
			return a.release(ctx, name, &left, time.Microsecond)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
