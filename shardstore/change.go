package shardstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Status is how far a change of maps is.
type Status struct {
	// Map is the newest one.
	Map Map
	// Behind are the shards of the map that do not have it: a change was interrupted. Call Change
	// again.
	Behind []string
	// Silent says which shards did not answer; nil: all did. A map that only they have is not seen.
	Silent error
}

// ReadStatus reads the maps of all shards and changes nothing. Where there is none, Map.Number is
// zero.
func ReadStatus(ctx context.Context, shards map[string]retrysafe.Store) (Status, error) {
	a, err := newAtlas(shards)
	if err != nil {
		return Status{}, err
	}
	m, _, silent, err := a.newest(ctx)
	st := Status{Silent: silent}
	if err != nil || m == nil {
		return st, err
	}
	st.Map = *m
	for _, name := range m.all() {
		one, _, err := a.look(ctx, name, m.Number)
		if err != nil {
			st.Silent = errors.Join(st.Silent, err)
		} else if one == nil {
			st.Behind = append(st.Behind, name)
		}
	}
	return st, nil
}

// BlockedError says that records stand in the way of the end of a change. Keys go on to be served
// by both their homes.
type BlockedError struct {
	// Shard is the one where they are, Records how many; First is the operation of one of them.
	Shard   string
	Records int
	First   string
	// Returning: they are copies that an earlier change has left in a shard that would get its keys
	// back.
	Returning bool
	// Until is when the last of them expires, by the clock of the shard; zero: at least one does
	// not, since it is in progress, in doubt, or kept for ever.
	Until time.Time
}

// Error says what to do.
func (e *BlockedError) Error() string {
	what := "that the next shards do not have"
	if e.Returning {
		what = "of keys that have left it, and would come back"
	}
	when := "settle what is in doubt (Engine.Resolve); records that are kept for ever never leave their shard: let it stay, or end the change by a Change to the shards before"
	if !e.Until.IsZero() {
		when = "they expire by " + e.Until.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("shardstore: shard %q has %d records %s (one is of operation %q); %s, and call Change again", e.Shard, e.Records, what, e.First, when)
}

// Change makes names the shards, and returns when no key moves any more. It may be called again
// after any error, by anybody, and then goes on from where it stopped; ctx ends it at any time, and
// processes go on to be served meanwhile. shards are all that there are and will be, by their
// names: those that leave as well. Every process that uses them has to have been started with the
// new ones.
//
// It announces the move, waits until nobody goes by the map before (the map's lease, by the clock
// of each shard), copies what was finished before the move, and ends it when the next shards have
// every record of the keys that move. What was begun before the move and is not finished, or is in
// doubt, cannot be copied: then Change returns a [*BlockedError], and is called again later. Until
// the move has ended keys that move cost three calls to shards for one. Where there are
// transactions ([TxStore]), those of keys that move are refused in the last part of it, for one to
// two leases. A Change to the shards before takes back what is under way, at once.
//
// A copy has a larger fence than its original, and says that it is of the first attempt.
func Change(ctx context.Context, shards map[string]retrysafe.Store, names []string) (Map, error) {
	a, err := newAtlas(shards)
	if err != nil {
		return Map{}, err
	}
	if err := checkNames(names); err != nil {
		return Map{}, err
	}
	names = sorted(names)
	for {
		m, wait, err := a.step(ctx, names)
		if err != nil {
			return Map{}, err
		}
		if wait == 0 {
			return *m, nil
		}
		if err := pause(ctx, wait); err != nil {
			return Map{}, err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// step goes on with a change as far as it can without waiting, and says how long to wait; zero: it
// is done.
func (a atlas) step(ctx context.Context, names []string) (*Map, time.Duration, error) {
	m, source, silent, err := a.newest(ctx)
	switch {
	case err != nil:
		return nil, 0, err
	case silent != nil:
		return nil, 0, fmt.Errorf("shardstore: a change needs all shards: %w", silent)
	case m == nil:
		return nil, 0, errors.New("shardstore: the shards have no map yet; make a Store with New first")
	}
	for _, name := range append(slices.Clone(names), m.all()...) {
		if _, err := a.shard(name); err != nil {
			return nil, 0, err
		}
	}
	if err := a.spread(ctx, source, m); err != nil { // who wrote it may have died
		return nil, 0, err
	}
	left, err := a.passed(ctx, m)
	switch {
	case err != nil:
		return nil, 0, err
	case m.Moving() && slices.Equal(m.Was, names):
		return a.settle(ctx, m, m.Was, 0) // back: what counts is there
	case m.Moving() && !slices.Equal(m.Names, names):
		return nil, 0, fmt.Errorf("shardstore: keys are moving from %q to %q; end that first, by a Change to one of both", m.Was, m.Names)
	case left > 0:
		return m, left, nil
	case m.Moving():
		return a.end(ctx, m)
	}
	if err := a.clean(ctx, m); err != nil {
		return nil, 0, err
	}
	if slices.Equal(m.Names, names) {
		return m, 0, nil
	}
	return a.announce(ctx, m, names)
}

// announce begins the move.
func (a atlas) announce(ctx context.Context, m *Map, names []string) (*Map, time.Duration, error) {
	for _, name := range names {
		if _, err := a.survey(ctx, name, names, m.Names, true); err != nil {
			return nil, 0, err
		}
	}
	return a.follow(ctx, m, &Map{Number: m.Number + 1, Names: names, Was: m.Names, Lease: m.Lease, Floor: m.Floor})
}

// end ends a move, if the next shards have all that counts. Where there may be transactions, it
// closes the old homes to them first: they ran there alone, and what the last of them have kept is
// copied when no other can come.
func (a atlas) end(ctx context.Context, m *Map) (*Map, time.Duration, error) {
	if m.Closing {
		if err := a.settleTx(ctx, m.Was); err != nil {
			return nil, 0, err
		}
	}
	most, err := a.complete(ctx, m)
	if blocked := (*BlockedError)(nil); m.Closing && errors.As(err, &blocked) {
		open := *m
		open.Number, open.Closing = m.Number+1, false
		if _, _, err := a.follow(ctx, m, &open); err != nil {
			return nil, 0, err
		}
	}
	switch {
	case err != nil:
		return nil, 0, err
	case !m.Closing && a.hasTx(m.Was):
		closing := *m
		closing.Number, closing.Closing = m.Number+1, true
		return a.follow(ctx, m, &closing)
	}
	return a.settle(ctx, m, m.Names, most)
}

// complete gives the next shards what they lack, and returns the largest fence of what has moved.
func (a atlas) complete(ctx context.Context, m *Map) (most retrysafe.Fence, err error) {
	for _, name := range m.Was {
		// What was decided before this write is on its way to be seen, or its caller looks at the
		// map again.
		if _, err := a.probe(ctx, name); err != nil {
			return 0, err
		}
		large, err := a.survey(ctx, name, m.Was, m.Names, false)
		if err != nil {
			return 0, err
		}
		most = max(most, large)
	}
	return most, nil
}

// hasTx tells whether one of the shards may run transactions.
func (a atlas) hasTx(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, ok := a[name].(retrysafe.TxSettler)
		return ok
	})
}

// settleTx waits until every transaction has ended that did not find the newest map at its end.
func (a atlas) settleTx(ctx context.Context, names []string) error {
	for _, name := range names {
		if s, ok := a[name].(retrysafe.TxSettler); ok {
			if err := s.SettleTx(ctx, txLock); err != nil {
				return failed(name, err)
			}
		}
	}
	return nil
}

// settle makes the map that ends a move, or takes it back. most is the largest fence of what has
// moved.
func (a atlas) settle(ctx context.Context, m *Map, names []string, most retrysafe.Fence) (*Map, time.Duration, error) {
	floor := max(m.Floor, most+1)
	for _, name := range m.Was {
		fence, err := a.probe(ctx, name)
		if err != nil {
			return nil, 0, err
		}
		floor = max(floor, fence)
	}
	return a.follow(ctx, m, &Map{Number: m.Number + 1, Names: names, Lease: m.Lease, Floor: floor})
}

// follow publishes the map after m.
func (a atlas) follow(ctx context.Context, m, next *Map) (*Map, time.Duration, error) {
	won, err := a.publish(ctx, m, next)
	switch {
	case err != nil:
		return nil, 0, err
	case !won.same(next):
		return nil, 0, fmt.Errorf("shardstore: somebody else has made map %d at this moment; look at the status, and call Change again", next.Number)
	}
	return won, won.Lease, nil
}
