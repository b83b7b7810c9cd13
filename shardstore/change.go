package shardstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
)

// Status describes the progress of a change of maps.
type Status struct {
	// Map is the newest map.
	Map Map
	// These shards of the map do not have it yet, since a change was interrupted. Call Change
	// again.
	Behind []string
	// Unreachable has the errors of shards that did not answer; nil: all did. ReadStatus does not
	// see a map that only those shards have.
	Unreachable error
}

// ReadStatus reads the maps of all shards and changes nothing. If there is no map, Map.Number is
// zero.
func ReadStatus(ctx context.Context, shards map[string]storeapi.Store) (Status, error) {
	a, err := newAtlas(shards)
	if err != nil {
		return Status{}, err
	}
	m, _, silent, err := a.newest(ctx)
	st := Status{Unreachable: silent}
	if err != nil || m == nil {
		return st, err
	}
	st.Map = *m
	for _, name := range m.all() {
		one, _, err := a.look(ctx, name, m.Number)
		if err != nil {
			st.Unreachable = errors.Join(st.Unreachable, err)
		} else if one == nil {
			st.Behind = append(st.Behind, name)
		}
	}
	return st, nil
}

// BlockedError means that records prevent a change from ending. Both homes continue to serve the
// keys.
type BlockedError struct {
	// Shard is the shard of these records, Records their number, and First the operation of one of
	// them.
	Shard   string
	Records int
	First   string
	// Returning: the records are copies that an earlier change left in a shard that would get its
	// keys back.
	Returning bool
	// Until is when the last of them expires, by the shard's clock. It is zero if at least one does
	// not expire: it is in progress, in doubt, or kept for ever.
	Until time.Time
}

// Error says what to do.
func (e *BlockedError) Error() string {
	what := "that the next shards do not have"
	if e.Returning {
		what = "of keys that have left it, and would come back"
	}
	when := "resolve what is in doubt (Engine.Resolve); records that are kept for ever never leave their shard: let it stay, or end the change by a Change to the shards before"
	if !e.Until.IsZero() {
		when = "they expire by " + e.Until.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("shardstore: shard %q has %d records %s (one is of operation %q); %s, and call Change again", e.Shard, e.Records, what, e.First, when)
}

// Change makes names the shards, and returns when no key moves any more. After an error any process
// can call it again, and it continues where it stopped. It stops when ctx ends. Processes continue
// to be served meanwhile. shards has all old and new shards by name, including those that are
// removed. Start every process that uses the shards with the new ones before the change.
//
// Change announces the move and waits until no process uses the previous map (the map's lease, by
// the clock of each shard). Then it copies the records of work that was finished or released before
// the move. It ends the move when the next shards have every record of the keys that move. Records
// from before the move that are in progress, in doubt, or issued and not used cannot be copied:
// then Change returns a [*BlockedError]; call it again later. Until the move has ended, a call for
// a moving key costs three calls to shards. If there are transactions ([TxStore]), those of moving
// keys are refused at the end of the move, for one to two leases. A Change to the previous shards
// takes a running move back at once.
//
// A copy has a larger fence than its original. All else stays: attempts are counted on, and
// retrysafe.Attempt.KeyFor returns the same keys.
func Change(ctx context.Context, shards map[string]storeapi.Store, names []string) (Map, error) {
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

// step continues a change as far as possible without waiting, and returns how long to wait; zero:
// the change is done.
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
	if err := a.spread(ctx, source, m); err != nil { // its writer may have died
		return nil, 0, err
	}
	left, err := a.passed(ctx, m)
	switch {
	case err != nil:
		return nil, 0, err
	case m.Moving() && slices.Equal(m.Was, names):
		return a.settle(ctx, m, m.Was, 0) // taken back: the previous shards have what counts
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

// end ends a move if the next shards have everything. If there may be transactions, it first closes
// the old homes to them: they ran only there. It copies the results of the last of them when no
// other transaction can come.
func (a atlas) end(ctx context.Context, m *Map) (*Map, time.Duration, error) {
	if m.Closing {
		if err := a.waitTx(ctx, m.Was); err != nil {
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

// complete copies to the next shards what they lack, and returns the largest fence of the moved
// records.
func (a atlas) complete(ctx context.Context, m *Map) (most storeapi.Fence, err error) {
	for _, name := range m.Was {
		// What was decided before this write will become visible, or its caller looks at the map
		// again.
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

// hasTx reports whether one of the shards may run transactions.
func (a atlas) hasTx(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, ok := a[name].(storeapi.TxWaiter)
		return ok
	})
}

// waitTx waits for the end of every transaction that looked at the maps before the newest one.
func (a atlas) waitTx(ctx context.Context, names []string) error {
	for _, name := range names {
		if s, ok := a[name].(storeapi.TxWaiter); ok {
			if err := s.WaitTx(ctx, txLock); err != nil {
				return failed(name, err)
			}
		}
	}
	return nil
}

// settle publishes the map that ends a move or takes it back. most is the largest fence of the
// moved records.
func (a atlas) settle(ctx context.Context, m *Map, names []string, most storeapi.Fence) (*Map, time.Duration, error) {
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
