package shardstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
)

// Options configure a store. Nil is valid.
type Options struct {
	// Lease is how long a process may use a map without another look at the shard; default 10 s, at
	// least 1 ms. Only the process that creates the first map sets it: the map stores it. Processes
	// look twice in that time; a change of maps waits for twice that time.
	Lease time.Duration
}

// Store is a [storeapi.Store] over shards, with every optional interface that the shards have. It
// is safe for concurrent use, and keeps no goroutines.
type Store struct {
	atlas   atlas
	batches bool             // every shard supports batches
	clock   func() time.Time // of this process

	mu    sync.Mutex
	m     *Map               // the newest map that this process knows
	looks map[string]reading // by shard; for m
	// the largest fence that a shard gave in spite of MinFence, since it had removed a larger one
	raised storeapi.Fence
}

// reading is a look at a shard, which had no map after m.
type reading struct {
	now  time.Time // the shard's clock
	sent time.Time // our clock
}

// New returns a store over shards, by name. A name must mean the same database in every process,
// for ever. The store uses the newest map that the shards have; it does not use shards that the map
// does not name. If no shard has a map, New creates the first one, with all shards. Only then all
// of them must answer.
func New(ctx context.Context, shards map[string]storeapi.Store, o *Options) (*Store, error) {
	a, err := newAtlas(shards)
	if err != nil {
		return nil, err
	}
	m, _, silent, err := a.newest(ctx)
	if err != nil {
		return nil, err
	}
	if m == nil {
		if silent != nil {
			return nil, fmt.Errorf("shardstore: the first map is made when all shards answer: %w", silent)
		}
		if m, err = a.first(ctx, o); err != nil {
			return nil, err
		}
	}
	s := &Store{atlas: a, clock: time.Now, m: m, looks: map[string]reading{}}
	s.batches, err = a.batches(ctx)
	return s, err
}

func newAtlas(shards map[string]storeapi.Store) (atlas, error) {
	names := atlas(shards).names()
	if err := checkNames(names); err != nil {
		return nil, err
	}
	for _, name := range names {
		if shards[name] == nil {
			return nil, fmt.Errorf("shardstore: the shard %q is nil", name)
		}
	}
	return maps.Clone(shards), nil
}

// first creates map 1.
func (a atlas) first(ctx context.Context, o *Options) (*Map, error) {
	m := &Map{Number: 1, Names: a.names(), Lease: 10 * time.Second}
	if o != nil && o.Lease != 0 {
		m.Lease = o.Lease
	}
	if m.Lease < time.Millisecond {
		return nil, fmt.Errorf("shardstore: Options.Lease is %v; use at least a millisecond", m.Lease)
	}
	for _, name := range m.Names {
		if len(m.Names) == 1 {
			break // all its records are at home
		}
		err := a.each(ctx, name, func(*storeapi.Record) error { return errNotEmpty })
		if errors.Is(err, errNotEmpty) {
			return nil, fmt.Errorf("shardstore: shard %q has records, whose homes the first map would move: make the first Store of that shard alone, and add the others by Change", name)
		} else if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return nil, err
		}
	}
	won, err := a.publish(ctx, nil, m)
	if err == nil && !slices.Equal(won.Names, m.Names) {
		return nil, fmt.Errorf("shardstore: somebody else has made the first map at this moment, of the shards %q; make them alike, or call New again", won.Names)
	}
	return won, err
}

// Map returns the map that this process uses.
func (s *Store) Map() Map {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := *s.m
	m.Names, m.Was = slices.Clone(m.Names), slices.Clone(m.Was)
	return m
}

// Home returns the name of the shard that has the records of key, for programs that read their own
// tables beside them. The result is valid for half of the map's lease (5 s with the default
// Options.Lease); then the key may get another home. For transactions of retrysafe.DoTx use
// [NewTx], which finds the home itself. While the key moves, Home returns an error that wraps
// [storeapi.ErrUnavailable].
func (s *Store) Home(ctx context.Context, key storeapi.StoreKey) (string, error) {
	if err := check(ctx, key); err != nil {
		return "", err
	}
	for range rounds {
		p, err := s.place(ctx, key)
		switch {
		case errors.Is(err, errMoved):
			continue
		case err != nil:
			return "", err
		case p.moves():
			return "", fmt.Errorf("%w: the key moves from shard %q to %q; try again when the change of maps has ended", storeapi.ErrUnavailable, p.name, p.nextName)
		}
		return p.name, nil
	}
	return "", errRestless
}

var errNotEmpty = errors.New("shardstore: there are records")

// rounds is how often a call starts again because maps change while it runs.
const rounds = 6

var (
	// errMoved means that there is a newer map, and that the call must be decided again.
	errMoved = errors.New("shardstore: there is a newer map")
	// errRestless means that a call was started again too often.
	errRestless = fmt.Errorf("%w: the shards' maps or clocks change too fast; try again", storeapi.ErrUnavailable)
)

// place has the homes of a key by one map.
type place struct {
	m              *Map
	name, nextName string
	home, next     storeapi.Store
	// seen and nextSeen are the shards' clocks at the last look.
	seen, nextSeen time.Time
	// sent is our clock at the look at home.
	sent time.Time
}

func (p *place) moves() bool { return p.name != p.nextName }

// until and nextUntil return when newer maps may be in use, by the clock of each shard, a tenth of
// the lease early.
func (p *place) until() time.Time     { return p.seen.Add(p.m.sure()) }
func (p *place) nextUntil() time.Time { return p.nextSeen.Add(p.m.sure()) }

// old reports whether keys may have moved since the look at home.
func (s *Store) old(p *place) bool { return s.clock().Sub(p.sent) >= p.m.sure() }

// place finds the homes of a key. If the last look there is old, it looks for newer maps.
func (s *Store) place(ctx context.Context, key storeapi.StoreKey) (*place, error) {
	s.mu.Lock()
	m := s.m
	s.mu.Unlock()
	p := &place{m: m}
	p.name, p.nextName = m.Home(key)
	return p, s.fill(ctx, p)
}

func (s *Store) fill(ctx context.Context, p *place) (err error) {
	if p.home, err = s.atlas.shard(p.name); err != nil {
		return err
	}
	if p.next, err = s.atlas.shard(p.nextName); err != nil {
		return err
	}
	home, err := s.fresh(ctx, p.m, p.name)
	if err != nil {
		return err
	}
	p.seen, p.sent, p.nextSeen = home.now, home.sent, home.now
	if p.moves() {
		next, err := s.fresh(ctx, p.m, p.nextName)
		if err != nil {
			return err
		}
		p.nextSeen = next.now
	}
	return nil
}

// fresh returns a look at the shard that is not old.
func (s *Store) fresh(ctx context.Context, m *Map, name string) (reading, error) {
	s.mu.Lock()
	r, ok := s.looks[name]
	ok = ok && s.m == m && s.clock().Sub(r.sent) < m.Lease/2
	s.mu.Unlock()
	if ok {
		return r, nil
	}
	return s.look(ctx, m, name)
}

// look asks a shard for maps after m. errMoved means that there is one, and that the store uses it
// now.
func (s *Store) look(ctx context.Context, m *Map, name string) (reading, error) {
	r := reading{sent: s.clock()}
	last, now, err := s.atlas.last(ctx, name, m)
	if r.now = now; err != nil {
		return r, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if last.Number > s.m.Number {
		s.m, s.looks = last, map[string]reading{}
	}
	if s.m.Number == last.Number {
		s.looks[name] = r
	}
	if s.m.Number != m.Number {
		return r, errMoved
	}
	return r, nil
}

// forget makes the next call look at a shard again, since the lease of the map has passed by the
// shard's clock.
func (s *Store) forget(name string) {
	s.mu.Lock()
	delete(s.looks, name)
	s.mu.Unlock()
}

// still asks the deciding shard whether m is the newest map. errMoved means that it is not.
func (s *Store) still(ctx context.Context, m *Map) error {
	_, err := s.look(ctx, m, m.decider())
	return err
}

func check(ctx context.Context, key storeapi.StoreKey) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if key.Namespace == namespace {
		return fmt.Errorf("%w: the namespace %q is that of the maps", storeapi.ErrInvalidKey, namespace)
	}
	return key.Validate()
}

// earlier returns the earlier of two times; a zero time does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
