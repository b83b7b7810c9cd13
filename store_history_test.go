package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

	now         atomic.Pointer[memstore.Store]
	unconfirmed atomic.Bool // what is written has no confirmation
	away        atomic.Bool
}

func newReplacedStore() *replacedStore {
	s := new(replacedStore)
	s.now.Store(memstore.New(nil))
	return s
}

func (s *replacedStore) Acquire(ctx context.Context, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	if s.away.Load() {
		return storeapi.Acquired{}, storeapi.ErrUnavailable
	}
	a, err := s.now.Load().Acquire(ctx, req)
	if err == nil && a.Status == storeapi.StatusAcquired && s.unconfirmed.Load() {
		return storeapi.Acquired{}, fmt.Errorf("%w: written, and not confirmed by a replica", storeapi.ErrUnavailable)
	}
	return a, err
}

func (s *replacedStore) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	return s.now.Load().Lookup(ctx, key)
}

// markKey is the key of the record with the marks.
var markKey = storeapi.StoreKey{Namespace: "shop", Layer: "mark", Key: storeapi.Key{Operation: "mark", ID: "last"}}

// putMarks writes the record with the marks.
func putMarks(t *testing.T, s storeapi.Store, binding []byte, retention time.Duration) {
	t.Helper()
	_, err := s.Acquire(ctx, storeapi.AcquireRequest{
		Key: markKey, Owner: storeapi.Owner{1}, Lease: 1, Retention: retention, Binding: binding,
		Finish: &storeapi.Finish{State: storeapi.StateFailed, Answer: storeapi.Answer{Codec: "none"}, Cause: "mark"},
	})
	assert.NoError(t, err, "the record with the marks")
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
			synctest.Test(t, func(t *testing.T) {
				s := newReplacedStore()
				mark := func(e *retrysafe.Engine) retrysafe.StoreHistory {
					time.Sleep(5 * time.Second)
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
				mark(other)
				before := mark(one)
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
				for _, seen := range []retrysafe.StoreHistory{{}, before, {LostFrom: h.LostFrom, LostUntil: h.LostUntil.Add(-time.Microsecond)}, {LostFrom: h.LostFrom.Add(time.Microsecond), LostUntil: h.LostUntil}} {
					assert.ErrorIs(t, desk.AcceptRestore(ctx, "shop", seen), retrysafe.ErrStoreWentBack, "accept another time")
				}
				_, err = one.MarkStore(ctx)
				assert.ErrorIs(t, err, retrysafe.ErrStoreWentBack, "after another time was accepted")
				assert.NoError(t, desk.AcceptRestore(ctx, "shop", h), "accept")
				assert.NoError(t, desk.AcceptRestore(ctx, "shop", h), "accept once more")
				for _, e := range []*retrysafe.Engine{other, one, late} {
					assert.True(t, mark(e).Marks > before.Marks, "marks after it")
				}
			})
		})
	}
}

// TestMarkThatIsNotConfirmed: a mark that the store has not confirmed may be lost by a failover.
// That is no restore, neither for the process that wrote it nor for one that has read it.
func TestMarkThatIsNotConfirmed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		primary, replica := memstore.New(nil), memstore.New(nil)
		s := newReplacedStore()
		one, other := withSecret(t, s, oneSecret), withSecret(t, s, oneSecret)
		mark := func() (unanswered int) {
			for _, e := range []*retrysafe.Engine{one, other, one, other} {
				time.Sleep(5 * time.Second)
				if _, err := e.MarkStore(ctx); err != nil {
					assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "mark")
					unanswered++
				}
			}
			return unanswered
		}
		s.now.Store(primary)
		assert.Equal(t, mark(), 0, "marks without an answer")
		rec, err := primary.Lookup(ctx, markKey)
		assert.NoError(t, err, "look up")
		putMarks(t, replica, rec.Binding, storeapi.Forever)
		s.unconfirmed.Store(true)
		assert.True(t, mark() > 0, "marks have an answer while the replica is away")
		s.now.Store(replica)
		s.unconfirmed.Store(false)
		assert.Equal(t, mark(), 0, "marks without an answer after the failover")

		s.now.Store(memstore.New(nil))
		s.unconfirmed.Store(true)
		for range 2 {
			_, err := one.MarkStore(ctx)
			assert.ErrorIs(t, err, retrysafe.ErrStoreWentBack, "a restored store that confirms nothing yet")
		}
		s.unconfirmed.Store(false)
		_, err = one.MarkStore(ctx)
		assert.ErrorIs(t, err, retrysafe.ErrStoreWentBack, "a restored store")
		s.away.Store(true)
		_, err = one.MarkStore(ctx)
		assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "a store without an answer, after a loss that is known")
	})
}

// TestLostMarkOfALostProcess: the process that wrote the marks is lost together with the primary,
// and the replica is a quarter of a minute late. A process that only read the marks notices it.
func TestLostMarkOfALostProcess(t *testing.T) {
	t.Parallel()
	for looks := range 9 {
		synctest.Test(t, func(t *testing.T) {
			primary, replica := memstore.New(nil), memstore.New(nil)
			s := newReplacedStore()
			s.now.Store(primary)
			writer, reader := withSecret(t, s, oneSecret), withSecret(t, s, oneSecret)
			mark := func(looks int) {
				for range looks {
					for _, e := range []*retrysafe.Engine{writer, reader} {
						_, err := e.MarkStore(ctx)
						assert.NoError(t, err, "mark")
						time.Sleep(2500 * time.Millisecond)
					}
				}
			}
			mark(1 + looks)
			rec, err := primary.Lookup(ctx, markKey)
			assert.NoError(t, err, "look up")
			putMarks(t, replica, rec.Binding, storeapi.Forever)
			mark(3)
			s.now.Store(replica)
			_, err = reader.MarkStore(ctx)
			assert.ErrorIs(t, err, retrysafe.ErrStoreWentBack, "after the failover")
		})
	}
}

// TestMarksOfManyProcesses: looks of many processes at a distant store cost a few calls each, and
// none is without an answer.
func TestMarksOfManyProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const processes, looks, distance = 200, 30, 15 * time.Millisecond
		inner := memstore.New(nil)
		s := storetest.NewFaulty(&distantStore{inner, distance}, nil)
		var all sync.WaitGroup
		for i := range processes {
			all.Go(func() {
				e := withSecret(t, s, oneSecret)
				time.Sleep(time.Duration(i) * 5 * time.Second / processes)
				for range looks {
					_, err := e.MarkStore(ctx)
					assert.NoError(t, err, "mark")
					time.Sleep(5 * time.Second)
				}
			})
		}
		all.Wait()
		calls := s.Calls("acquire")
		assert.True(t, calls < 3*processes*looks, "%d calls for %d looks", calls, processes*looks)
	})
}

// distantStore is a store that is so far away.
type distantStore struct {
	storeapi.Store

	distance time.Duration
}

func (s *distantStore) Acquire(ctx context.Context, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	<-time.After(s.distance)
	a, err := s.Store.Acquire(ctx, req)
	<-time.After(s.distance)
	return a, err
}

// TestMarkExpires: a record that expired, as that of a demonstration on a laptop that slept, is no
// restore.
func TestMarkExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(nil)
		putMarks(t, s, append([]byte{1}, make([]byte, 48)...), time.Hour)
		one, other := withSecret(t, s, oneSecret), withSecret(t, s, oneSecret)
		for _, pause := range []time.Duration{time.Second, 50 * time.Minute, 50 * time.Minute, 2 * time.Hour, time.Second} {
			time.Sleep(pause)
			for _, e := range []*retrysafe.Engine{one, other} {
				_, err := e.MarkStore(ctx)
				assert.NoError(t, err, "after %v", pause)
			}
		}
		rec, err := s.Lookup(ctx, markKey)
		assert.True(t, err == nil && rec.Expires.Sub(rec.Updated) == time.Hour, "the record keeps its retention: %+v, %v", rec, err)
	})
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
	putMarks(t, s, []byte{2, 1}, storeapi.Forever)
	_, err := withSecret(t, s, oneSecret).MarkStore(ctx)
	assert.Contains(t, err.Error(), "cannot be read by this build", "mark")
	assert.True(t, !errors.Is(err, retrysafe.ErrUnavailable) && !errors.Is(err, retrysafe.ErrStoreWentBack), "mark: %v", err)
	rec, err := s.Lookup(ctx, markKey)
	assert.True(t, err == nil && string(rec.Binding) == "\x02\x01", "the record then: %q, %v", rec.Binding, err)
}
