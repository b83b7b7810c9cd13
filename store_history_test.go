package retrysafe_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/nearstore"
	"github.com/retrysafe/retrysafe/stores/sealstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// replacedStore is a store in whose place another one can be put, as by a restore.
type replacedStore struct {
	storeapi.Store

	now atomic.Pointer[memstore.Store]
}

func newReplacedStore() *replacedStore {
	s := new(replacedStore)
	s.now.Store(memstore.New(nil))
	return s
}

func (s *replacedStore) Acquire(ctx context.Context, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	return s.now.Load().Acquire(ctx, req)
}

func (s *replacedStore) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	return s.now.Load().Lookup(ctx, key)
}

// TestMarkStore: engines of one store mark it, see that it is another one, say so to those that
// come later, and go on when an operator has accepted it. Wrappers of stores do not hide that.
func TestMarkStore(t *testing.T) {
	t.Parallel()
	text, err := sealstore.NewKeyFile("a")
	assert.NoError(t, err, "key file")
	ring, err := sealstore.ParseRing(text)
	assert.NoError(t, err, "ring")
	for name, wrap := range map[string]func(storeapi.Store) storeapi.Store{
		"plain":  func(s storeapi.Store) storeapi.Store { return s },
		"near":   func(s storeapi.Store) storeapi.Store { return nearstore.New(s, nil) },
		"sealed": func(s storeapi.Store) storeapi.Store { return sealstore.New(s, ring, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newReplacedStore()
			mark := func(e *retrysafe.Engine) retrysafe.StoreHistory {
				h, err := e.MarkStore(ctx)
				assert.NoError(t, err, "mark")
				return h
			}
			one, other := withSecret(t, wrap(s), oneSecret), withSecret(t, wrap(s), oneSecret)
			assert.Equal(t, mark(one).Marks, uint64(1), "the first mark")
			for range 3 {
				mark(other)
				mark(one)
			}
			assert.True(t, mark(one).Marks >= 4, "marks")
			before := mark(other)
			assert.True(t, before.LostUntil.IsZero() && !before.Last.IsZero(), "history: %+v", before)

			s.now.Store(memstore.New(nil))
			late := withSecret(t, wrap(s), oneSecret)
			mark(late) // it knows nothing of the store before
			for range 2 {
				for _, e := range []*retrysafe.Engine{one, late, other} {
					h, err := e.MarkStore(ctx)
					assert.ErrorIs(t, err, retrysafe.ErrStoreWentBack, "after the restore")
					assert.Contains(t, err.Error(), "retrysafe restore accept", "what to do")
					assert.True(t, !h.LostUntil.Before(before.Last), "lost until %v, and the last mark was at %v", h.LostUntil, before.Last)
				}
			}
			desk, err := admin.NewRecords(s.now.Load(), nil)
			assert.NoError(t, err, "desk")
			h, err := desk.StoreHistory(ctx, "shop")
			assert.True(t, err == nil && !h.LostUntil.IsZero(), "what an operator sees: %+v, %v", h, err)
			assert.NoError(t, desk.AcceptRestore(ctx, "shop"), "accept")
			assert.NoError(t, desk.AcceptRestore(ctx, "shop"), "accept once more")
			for _, e := range []*retrysafe.Engine{other, one, late} {
				assert.True(t, mark(e).Marks > before.Marks, "marks after it")
			}
		})
	}
}

// TestMarkStoreFaults: lost calls and lost replies are no restore, and a store that is away is
// unavailable.
func TestMarkStoreFaults(t *testing.T) {
	t.Parallel()
	inner := memstore.New(nil)
	var n atomic.Int64
	s := storetest.NewFaulty(inner, func(string, int) storetest.Fault {
		return []storetest.Fault{0, storetest.LoseReply, 0, storetest.LoseRequest, storetest.LoseReply}[n.Add(1)%5]
	})
	one, other := withSecret(t, s, oneSecret), withSecret(t, inner, oneSecret)
	for range 12 {
		_, err := one.MarkStore(ctx)
		assert.True(t, err == nil || errors.Is(err, retrysafe.ErrUnavailable), "mark: %v", err)
		_, err = other.MarkStore(ctx)
		assert.NoError(t, err, "mark of another process")
	}
	away := withSecret(t, storetest.NewFaulty(inner, func(string, int) storetest.Fault { return storetest.LoseRequest }), oneSecret)
	_, err := away.MarkStore(ctx)
	assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "a store that is away")
}

// TestMarkStoreOfALaterBuild: a record that this build cannot read is left as it is.
func TestMarkStoreOfALaterBuild(t *testing.T) {
	t.Parallel()
	s := memstore.New(nil)
	key := storeapi.StoreKey{Namespace: "shop", Layer: "mark", Key: storeapi.Key{Operation: "mark", ID: "last"}}
	_, err := s.Acquire(ctx, storeapi.AcquireRequest{
		Key: key, Owner: storeapi.Owner{1}, Lease: 1, Retention: storeapi.Forever, Binding: []byte{2, 1},
		Finish: &storeapi.Finish{State: storeapi.StateFailed, Answer: storeapi.Answer{Codec: "none"}, Cause: "mark"},
	})
	assert.NoError(t, err, "the record")
	_, err = withSecret(t, s, oneSecret).MarkStore(ctx)
	assert.Contains(t, err.Error(), "cannot be read by this build", "mark")
	assert.True(t, !errors.Is(err, retrysafe.ErrUnavailable) && !errors.Is(err, retrysafe.ErrStoreWentBack), "mark: %v", err)
	rec, err := s.Lookup(ctx, key)
	assert.True(t, err == nil && string(rec.Binding) == "\x02\x01", "the record then: %q, %v", rec.Binding, err)
}
