package shardstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Options configure a store. Nil is valid.
type Options struct {
	// Home returns the name of the shard of a key; default [Pick] over all names. As long as a key
	// may have a record, Home has to return the same name for it, in every process: a key that is
	// sent to another shard runs again. It is called concurrently, for each call, and must not
	// fail.
	//
	// The counts of a tenant's limits are at the home of the key that has nothing but the
	// Namespace, the Layer "limit" and the Tenant.
	Home func(storeapi.StoreKey) string
}

// Store is a [storeapi.Store] over shards, with every optional interface that the shards have. It
// is safe for concurrent use, and keeps no goroutines.
type Store struct {
	shards  map[string]storeapi.Store
	names   []string // sorted
	home    func(storeapi.StoreKey) string
	batches bool // every shard supports batches
}

// New returns a store over shards, by name. A name must mean the same database in every process,
// for ever.
//
// The shards keep the list of their names. New returns an error if it is another one than that of
// shards: keys would have other homes, and run again. Only the first New needs all shards; after
// that one that answers is enough.
func New(ctx context.Context, shards map[string]storeapi.Store, o *Options) (*Store, error) {
	s, err := newStore(shards, o)
	if err != nil {
		return nil, err
	}
	if err := s.checkList(ctx); err != nil {
		return nil, err
	}
	s.batches, err = s.supportBatches(ctx)
	return s, err
}

func newStore(shards map[string]storeapi.Store, o *Options) (*Store, error) {
	s := &Store{shards: maps.Clone(shards), names: slices.Sorted(maps.Keys(shards))}
	if err := checkNames(s.names); err != nil {
		return nil, err
	}
	for _, name := range s.names {
		if shards[name] == nil {
			return nil, fmt.Errorf("shardstore: the shard %q is nil", name)
		}
	}
	if o != nil {
		s.home = o.Home
	}
	return s, nil
}

// Home returns the name of the shard that has the record of key. An error means that Options.Home
// has returned a name that is not in the list.
func (s *Store) Home(key storeapi.StoreKey) (string, error) {
	if s.home == nil {
		return Pick(s.names, key), nil
	}
	name := s.home(key)
	if s.shards[name] == nil {
		return "", fmt.Errorf("%w: shardstore: Options.Home returns %q, which is none of the shards %q", storeapi.ErrInvalidKey, name, s.names)
	}
	return name, nil
}

// homeShard returns the home of a key.
func (s *Store) homeShard(ctx context.Context, key storeapi.StoreKey) (name string, shard storeapi.Store, err error) {
	if err := ctx.Err(); err != nil {
		return "", nil, err
	}
	if key.Namespace == listNamespace {
		return "", nil, fmt.Errorf("%w: the namespace %q is that of the list of shards", storeapi.ErrInvalidKey, listNamespace)
	}
	if err := key.Validate(); err != nil {
		return "", nil, err
	}
	name, err = s.Home(key)
	return name, s.shards[name], err
}

// Pick returns the name with the highest score for a key (rendezvous hashing; Thaler and
// Ravishankar, "Using name-based mappings to increase hit rates", 1998). The order of names does
// not matter. One more name takes keys from all others, and moves none between them. The function
// never changes. It returns "" if there are no names.
//
// An [Options].Home can use it for a part of the keys, such as those that are newer than a change
// of the list.
func Pick(names []string, key storeapi.StoreKey) string {
	var space [256]byte
	text, _ := key.AppendText(space[:0]) // never fails
	best, most := "", uint64(0)
	for _, name := range names {
		h := fnv.New64a()
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(name)))
		_, _ = h.Write(size[:])
		_, _ = h.Write([]byte(name))
		_, _ = h.Write(text)
		if score := mixBits(h.Sum64()); best == "" || score > most || score == most && name < best {
			best, most = name, score
		}
	}
	return best
}

// mixBits spreads values that FNV leaves close together (the finalizer of MurmurHash3).
func mixBits(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

const (
	maxShards = 1000
	maxName   = 128
)

// checkNames refuses names that cannot be stored or that are not distinct.
func checkNames(names []string) error {
	if len(names) == 0 {
		return errors.New("shardstore: no shards; give at least one")
	}
	if len(names) > maxShards {
		return fmt.Errorf("shardstore: %d shards; use at most %d", len(names), maxShards)
	}
	for i, name := range names {
		switch {
		case name == "" || len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }):
			return fmt.Errorf("shardstore: the name of a shard is %q; use 1 to %d visible ASCII characters", name, maxName)
		case slices.Contains(names[:i], name):
			return fmt.Errorf("shardstore: the shard %q is named twice", name)
		}
	}
	return nil
}

// shardError adds the shard's name to err. It keeps what err says about whether the call was
// applied.
func shardError(name string, err error) error {
	if err == nil {
		return nil
	}
	for _, certain := range []error{
		storeapi.ErrLeaseLost, storeapi.ErrInvalidKey, storeapi.ErrTooLate, storeapi.ErrInTransaction, errors.ErrUnsupported, context.Canceled,
	} {
		if errors.Is(err, certain) {
			return err
		}
	}
	return fmt.Errorf("%w: shard %q: %w", storeapi.ErrUnavailable, name, err)
}
