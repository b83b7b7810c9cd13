package sealstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Options configure a store. Nil is valid.
type Options struct {
	// Keys keeps the wrapped data keys; default [KeysIn] the inner store.
	Keys Keys
	// CacheLife is how long an opened data key is used without a look at Keys; default 5 min. After
	// [Store.Forget], other processes can open answers for so long.
	CacheLife time.Duration
	// CacheSize is the number of opened data keys in memory; default 10000.
	CacheSize int
	// OnlySealed refuses to return answers that are stored in the clear. Set it when the retention
	// of the answers from before sealing has passed: by default they are returned.
	OnlySealed bool
	// OnUnopened is called when an answer or a text is returned unopened, with the reason; default:
	// not at all. It must not block.
	OnUnopened func(key storeapi.StoreKey, why error)
	// Now measures elapsed time; default time.Now.
	Now func() time.Time
}

// Store is a [storeapi.Store] that seals what it passes to another one, with every optional
// interface. It is safe for concurrent use.
//
// What cannot be opened, and never can be with these master keys, is returned sealed: the record is
// as it is, and its Answer has Kept false and a codec that begins with [storeapi.SealedPrefix]. If
// Keys does not answer, calls return an error that wraps [storeapi.ErrUnavailable].
type Store struct {
	inner      storeapi.Store
	keys       Keys
	ring       atomic.Pointer[Ring]
	cache      cache
	onlySealed bool
	onUnopened func(storeapi.StoreKey, error) // Options.OnUnopened
}

// New returns a store that seals what it passes to inner. It panics if inner or ring is nil.
func New(inner storeapi.Store, ring *Ring, o *Options) *Store {
	if inner == nil || ring == nil {
		panic("sealstore: New needs a store and a key ring; ParseRing and ReadRing make one")
	}
	if o == nil {
		o = new(Options)
	}
	s := &Store{
		inner: inner, keys: o.Keys, onlySealed: o.OnlySealed, onUnopened: o.OnUnopened,
		cache: cache{most: o.CacheSize, life: o.CacheLife, clock: o.Now},
	}
	s.ring.Store(ring)
	if s.keys == nil {
		s.keys = KeysIn(inner)
	}
	if s.cache.most <= 0 {
		s.cache.most = 10_000
	}
	if s.cache.life <= 0 {
		s.cache.life = 5 * time.Minute
	}
	if s.cache.clock == nil {
		s.cache.clock = time.Now
	}
	if s.onUnopened == nil {
		s.onUnopened = func(storeapi.StoreKey, error) {}
	}
	return s
}

// SetRing makes the store use another key ring from now on.
func (s *Store) SetRing(r *Ring) { s.ring.Store(r) }

// maxSwaps is how often a data key is read again because other processes change it.
const maxSwaps = 10

// errTooManySwaps means that other processes changed a data key all the time.
var errTooManySwaps = errors.New("the data key changes too fast; try again")

// ErrNoKey means that a tenant has no data key: nothing was sealed for a tenant of this namespace
// and name.
var ErrNoKey = errors.New("the tenant has no data key, so nothing was sealed for it; check the namespace and the tenant's name, which is that in the records")

// errAuditLog means that a data key is that of an audit log.
var errAuditLog = errors.New("the namespace " + Namespace + " has the data keys of audit logs, which are never destroyed")

// sealingKey returns the tenant's data key for sealing, and makes one if there is none. If Keys
// does not answer, it returns one that was read earlier: an answer must be stored.
func (s *Store) sealingKey(ctx context.Context, t Tenant) (*dataKey, error) {
	old, fresh := s.cache.get(t)
	if fresh {
		return old, nil
	}
	k, err := s.loadKey(ctx, t, true)
	if err != nil && old != nil {
		return old, nil
	}
	return k, err
}

// openingKey returns the tenant's data key with an id.
func (s *Store) openingKey(ctx context.Context, t Tenant, id keyID) (*dataKey, error) {
	k, fresh := s.cache.get(t)
	if fresh && k.id == id {
		return k, nil
	}
	k, err := s.loadKey(ctx, t, false)
	if err == nil && (k == nil || k.id != id) {
		err = errKeyIsGone
	}
	return k, err
}

// loadKey reads the tenant's data key from Keys. If there is none, it makes one if it may, and
// returns nil otherwise.
func (s *Store) loadKey(ctx context.Context, t Tenant, create bool) (*dataKey, error) {
	var made *dataKey
	for range maxSwaps {
		removals := s.cache.removalCount()
		stored, err := s.keys.Load(ctx, t)
		if err != nil {
			return nil, err
		}
		var parsed storedKey
		if stored != nil {
			if parsed, err = parseKey(stored); err != nil {
				return nil, err
			}
		}
		ring := s.ring.Load()
		if stored == nil || parsed.forgotten {
			if !create {
				return nil, nil //nolint:nilnil // as documented
			}
			if made == nil {
				made = newDataKey()
			}
			// After a lost reply the next round finds the key that is stored.
			if _, err := s.keys.Swap(ctx, t, stored, ring.wrap(t, made)); err != nil {
				return nil, err
			}
			continue
		}
		k, err := ring.unwrap(t, &parsed)
		if err != nil {
			return nil, err
		}
		if parsed.master != ring.current {
			// Rewrap does the same for all tenants, and returns errors.
			_, _ = s.keys.Swap(ctx, t, stored, ring.wrap(t, k))
		}
		s.cache.storeUnlessRemoved(t, k, removals)
		return k, nil
	}
	return nil, errTooManySwaps
}

// Forget destroys the tenant's data key: what was sealed for the tenant cannot be opened any more.
// Records stay, and duplicates of finished work still run nothing. What the tenant does next gets a
// new key. If there is no data key of the tenant, the error is [ErrNoKey]; if it was forgotten
// before, there is none.
//
// When Forget has returned nil, Keys has no data key of the tenant. Other processes may use their
// copy for Options.CacheLife, and what they seal meanwhile cannot be opened later. After an error
// the key may have been destroyed: repeat the call. To destroy copies in backups of Keys as well,
// rotate the master key, call [Store.Rewrap], and destroy the old master key.
//
// The audit log is not forgotten: its data key is no tenant's, and Forget returns an error for it.
func (s *Store) Forget(ctx context.Context, t Tenant) error {
	if t.isAuditLog() {
		return fmt.Errorf("sealstore: forget: %w", errAuditLog)
	}
	defer s.cache.remove(t)
	var target *keyID
	for range maxSwaps {
		stored, err := s.keys.Load(ctx, t)
		if err != nil {
			return fmt.Errorf("sealstore: forget: %w", err)
		}
		if stored == nil && target == nil {
			return fmt.Errorf("sealstore: forget: %w", ErrNoKey)
		}
		if stored == nil {
			return nil
		}
		parsed, err := parseKey(stored)
		if err == nil && parsed.forgotten || target != nil && parsed.id != *target {
			return nil // a newer key is that of what the tenant did since
		}
		target = &parsed.id
		swapped, err := s.keys.Swap(ctx, t, stored, forgottenKey(parsed.id))
		if err != nil {
			return fmt.Errorf("sealstore: forget: %w", err)
		}
		if swapped {
			return nil
		}
	}
	return fmt.Errorf("sealstore: forget: %w", errTooManySwaps)
}

// Rewrap wraps every data key with the current master key, and returns how many it has changed.
// When it has returned nil, no data key needs an older master key, if all processes have the same
// current one. An error names what was left; the other data keys were wrapped.
func (s *Store) Rewrap(ctx context.Context) (changed int, err error) {
	var errs []error
	err = s.keys.Tenants(ctx, func(t Tenant) error {
		did, err := s.rewrapKey(ctx, t)
		if did {
			changed++
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("sealstore: the data key of %s: %w", t.keyOwner(), err))
		}
		return ctx.Err()
	})
	return changed, errors.Join(append(errs, err)...)
}

func (s *Store) rewrapKey(ctx context.Context, t Tenant) (changed bool, err error) {
	var next []byte
	for range maxSwaps {
		stored, err := s.keys.Load(ctx, t)
		if err != nil || stored == nil {
			return false, err
		}
		if next != nil && bytes.Equal(stored, next) {
			return true, nil
		}
		ring := s.ring.Load()
		parsed, err := parseKey(stored)
		if err != nil || parsed.forgotten || parsed.master == ring.current {
			return false, err
		}
		k, err := ring.unwrap(t, &parsed)
		if err != nil {
			return false, err
		}
		next = ring.wrap(t, k)
		if _, err := s.keys.Swap(ctx, t, stored, next); err != nil {
			return false, err
		}
	}
	return false, errTooManySwaps
}
