package shardstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
)

// atlas reads and writes the maps in the shards. Each map is a record of its own, completed and
// kept for ever. So the first map that is written under a number stays.
type atlas map[string]storeapi.Store

// The namespace of the records of maps. No other record uses it.
const namespace = "retrysafe-shardstore"

func mapKey(number int64) storeapi.StoreKey {
	return storeapi.StoreKey{
		Namespace: namespace, Layer: "map",
		Key: storeapi.Key{Operation: "map", ID: strconv.FormatInt(number, 10)},
	}
}

// shard returns the store with a name.
func (a atlas) shard(name string) (storeapi.Store, error) {
	if s := a[name]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("%w: the map names the shard %q, which this process was not given; start it with that shard", storeapi.ErrUnavailable, name)
}

// look reads one map. m is nil if the shard has no map with that number as of now.
func (a atlas) look(ctx context.Context, name string, number int64) (m *Map, now time.Time, err error) {
	s, err := a.shard(name)
	if err != nil {
		return nil, now, err
	}
	rec, err := s.Lookup(ctx, mapKey(number))
	switch {
	case err != nil:
		return nil, now, failed(name, err)
	case rec.State == storeapi.StateCompleted:
		m, err = parseMap(name, number, &rec.Answer)
	}
	return m, rec.Now, err
}

// last reads the maps of a shard that come after m (nil: all of them). It returns the last one, or
// m if there is none, and the time when no other existed.
func (a atlas) last(ctx context.Context, name string, m *Map) (last *Map, now time.Time, err error) {
	number := int64(0)
	if m != nil {
		number = m.Number
	}
	for {
		next, now, err := a.look(ctx, name, number+1)
		if err != nil || next == nil {
			return m, now, err
		}
		m, number = next, next.Number
	}
}

// names returns the names of all shards, sorted.
func (a atlas) names() []string { return slices.Sorted(maps.Keys(a)) }

// newest asks all shards for their last map. source is a shard that has it and all maps before it.
// silent has the errors of shards that did not answer.
func (a atlas) newest(ctx context.Context) (m *Map, source string, silent, err error) {
	for _, name := range a.names() {
		last, _, err := a.last(ctx, name, nil)
		switch {
		case errors.Is(err, storeapi.ErrUnavailable):
			silent = errors.Join(silent, err)
		case err != nil:
			return nil, "", nil, err
		case last == nil:
		case m == nil || last.Number > m.Number:
			m, source = last, name
		case last.Number == m.Number && !last.same(m):
			return nil, "", nil, fmt.Errorf("shardstore: shard %q has another map %d than the shards before it: these shards do not belong together", name, m.Number)
		}
	}
	return m, source, silent, nil
}

// write stores m in a shard, unless the shard has another map with that number. It returns the map
// that is stored.
func (a atlas) write(ctx context.Context, name string, m *Map) (*Map, error) {
	s, err := a.shard(name)
	if err != nil {
		return nil, err
	}
	req := storeapi.AcquireRequest{Key: mapKey(m.Number), Lease: writeLease, Retention: storeapi.Forever, OnDoubt: storeapi.Reexecute}
	_, _ = rand.Read(req.Owner[:]) // never fails
	got, err := s.Acquire(ctx, req)
	if err != nil { // once more, as the same owner
		got, err = s.Acquire(ctx, req)
	}
	if err != nil {
		return nil, failed(name, err)
	}
	rec := got.Record
	switch got.Status {
	case storeapi.StatusAcquired:
		end := storeapi.CompleteRequest{
			Key: req.Key, Owner: rec.Owner, Fence: rec.Fence, State: storeapi.StateCompleted, Answer: m.answer(), Retention: storeapi.Forever, Quiet: true,
		}
		rec, err = s.Complete(ctx, end)
		if err != nil {
			rec, err = s.Complete(ctx, end)
		}
		if err != nil {
			return nil, failed(name, err)
		}
	case storeapi.StatusFinished:
	default:
		return nil, fmt.Errorf("%w: somebody else is about to write map %d in shard %q; try again in %v", storeapi.ErrUnavailable, m.Number, name, writeLease)
	}
	return parseMap(name, m.Number, &rec.Answer)
}

// writeLease is how long a writer of a map waits for another one that has died.
const writeLease = 5 * time.Second

// publish makes m the map after from. It writes it first to the deciding shard, then to the others
// together with the maps that they lack. It returns the map that was stored first.
func (a atlas) publish(ctx context.Context, from, m *Map) (*Map, error) {
	decider := m.Names[0]
	if from != nil {
		decider = from.decider()
	}
	won, err := a.write(ctx, decider, m)
	if err != nil {
		return nil, err
	}
	return won, a.spread(ctx, decider, won)
}

// spread writes the maps up to m that a shard lacks, in order, to every shard. That includes shards
// that are not a home any more, since some processes may still ask them. source has all the maps.
func (a atlas) spread(ctx context.Context, source string, m *Map) error {
	for _, name := range a.names() {
		have, _, err := a.last(ctx, name, nil)
		if err != nil {
			return err
		}
		number := int64(1)
		if have != nil {
			number = have.Number + 1
		}
		for ; number <= m.Number; number++ {
			one, _, err := a.look(ctx, source, number)
			if err != nil {
				return err
			}
			if one == nil {
				return fmt.Errorf("shardstore: shard %q has map %d and not map %d; it has lost records", source, m.Number, number)
			}
			wrote, err := a.write(ctx, name, one)
			if err != nil {
				return err
			}
			if !wrote.same(one) {
				return fmt.Errorf("shardstore: shard %q has another map %d than shard %q: they do not belong together", name, number, source)
			}
		}
	}
	return nil
}

// passed returns how long it takes, by the clock of each shard, until no process uses a map before
// m any more.
func (a atlas) passed(ctx context.Context, m *Map) (left time.Duration, err error) {
	for _, name := range a.names() {
		s, err := a.shard(name)
		if err != nil {
			return 0, err
		}
		rec, err := s.Lookup(ctx, mapKey(m.Number))
		if err != nil {
			return 0, failed(name, err)
		}
		if rec.State != storeapi.StateCompleted {
			return 0, fmt.Errorf("%w: shard %q does not have map %d yet; try again", storeapi.ErrUnavailable, name, m.Number)
		}
		left = max(left, rec.Updated.Add(m.Lease+time.Millisecond).Sub(rec.Now))
	}
	return left, nil
}

// failed adds the shard's name to err. It keeps what err says about whether the call was applied.
func failed(name string, err error) error {
	for _, sure := range []error{storeapi.ErrLeaseLost, storeapi.ErrInvalidKey, storeapi.ErrTooLate, storeapi.ErrInTransaction, errors.ErrUnsupported} {
		if errors.Is(err, sure) {
			return err
		}
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: shard %q: %w", storeapi.ErrUnavailable, name, err)
}
