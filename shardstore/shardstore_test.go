package shardstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/memstore"
	"github.com/retrysafe/retrysafe/shardstore"
	"github.com/retrysafe/retrysafe/storeapi"
	"github.com/retrysafe/retrysafe/storetest"
)

type shards = map[string]storeapi.Store

// memories returns n empty stores with their own clock.
func memories(n int, clock *storetest.Clock) shards {
	all := shards{}
	for i := range n {
		o := new(memstore.Options)
		if clock != nil {
			o.Now = clock.Now
		}
		all[string(rune('a'+i))] = memstore.New(o)
	}
	return all
}

func open(t *testing.T, all shards, o *shardstore.Options) *shardstore.Store {
	t.Helper()
	s, err := shardstore.New(t.Context(), all, o)
	assert.NoError(t, err, "New")
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d shards", n), func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T) storetest.Backend {
				t.Helper()
				clock := storetest.NewClock()
				all := memories(n, clock)
				return storetest.Backend{
					Store: open(t, all, nil), Advance: clock.Advance, Rewind: clock.Rewind,
					Reopen: func() storeapi.Store { return open(t, all, nil) },
				}
			}, storetest.Features{Issuer: true, Limiter: true, UsageReader: true, Lister: true, Sweeper: true, Durable: true})
		})
	}
}

// unswept hides Sweep, whose count the suite checks: a record of a moving key is removed in two
// shards.
type unswept struct{ *shardstore.Store }

func (unswept) Sweep(context.Context, int) (int, error) { return 0, errors.ErrUnsupported }

// TestStoreInAMove: the contract holds in the middle of a change of maps, in which all keys or some
// move from a to b.
func TestStoreInAMove(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{"b"}, {"b", "c"}, {"a", "b", "c"}} {
		t.Run(fmt.Sprintf("to %q", names), func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T) storetest.Backend {
				t.Helper()
				clock := storetest.NewClock()
				all := memories(3, clock)
				open(t, shards{"a": all["a"]}, nil)
				announce(t, all, names, clock)
				s := open(t, all, nil)
				m := s.Map()
				assert.True(t, m.Moving(), "keys move")
				return storetest.Backend{
					Store: unswept{s}, Advance: clock.Advance,
					Reopen: func() storeapi.Store { return unswept{open(t, all, nil)} },
				}
			}, storetest.Features{Issuer: true, Limiter: true, UsageReader: true, Lister: true, Durable: true})
		})
	}
}

// announce begins a change and stops there, like a command that was interrupted while it waited.
func announce(t *testing.T, all shards, names []string, clock *storetest.Clock) {
	t.Helper()
	for range 2 { // the first step gives maps to shards that have none
		_, left, err := shardstore.Step(t.Context(), all, names)
		assert.NoError(t, err, "a step of a change")
		clock.Advance(left)
	}
	st, err := shardstore.ReadStatus(t.Context(), all)
	assert.NoError(t, err, "status")
	assert.True(t, st.Map.Moving() && st.Behind == nil && st.Unreachable == nil, "the move is announced: %+v", st)
}
