package filter_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/filter"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// logTo returns a logger and its output.
func logTo() (*slog.Logger, *said) {
	s := new(said)
	return slog.New(slog.NewTextHandler(s, nil)), s
}

type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// numbers returns the ids of a to b; it calls do before the id of at.
func numbers(a, b uint64, at uint64, do func() error) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for n := a; n < b; n++ {
			if n == at {
				if err := do(); err != nil {
					yield(nil, err)
					return
				}
			}
			if !yield(id(n), nil) {
				return
			}
		}
	}
}

// rebuilder has the methods that filters in a process have in common.
type rebuilder interface {
	filter.Prefilter
	Add(id []byte) bool
	MaybeSeen(id []byte) bool
	Rebuild(ctx context.Context, ids iter.Seq2[[]byte, error], progress func(int)) (int, error)
	MarkWhole()
	Stats() filter.Stats
}

func inProcess(t *testing.T, o filter.Options) map[string]rebuilder {
	t.Helper()
	h, err := filter.NewHyperLogLog(&o)
	assert.NoError(t, err, "a sketch")
	return map[string]rebuilder{"bloom": newBloom(t, o), "hyperloglog": h}
}

var errSource = errors.New("connection reset")

// TestRebuild: no id is surely new until the rebuild has ended. After an error, or a context that
// ends, another call makes the filter whole. Ids that are added meanwhile stay.
func TestRebuild(t *testing.T) {
	t.Parallel()
	for name, f := range inProcess(t, filter.Options{Items: 20_000, FalsePositive: 1e-6, Precision: 18}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			maybe := func(when string) {
				assert.True(t, !f.Add(id(1<<40)) && f.MaybeSeen(id(1<<41)) && !f.Stats().Whole, "maybe to all, %s", when)
			}
			maybe("at the start")
			n, err := f.Rebuild(t.Context(), numbers(0, 9000, 5000, func() error { maybe("meanwhile"); f.Add(id(77_000)); return errSource }), nil)
			assert.ErrorIs(t, err, errSource, "the error of the source")
			assert.Equal(t, n, 5000, "put in before it")
			maybe("after an error")

			ctx, cancel := context.WithCancel(t.Context())
			_, err = f.Rebuild(ctx, numbers(0, 9000, 3000, func() error { cancel(); return nil }), nil)
			assert.ErrorIs(t, err, context.Canceled, "the end of the context")
			// An iterator may end early when the context ends.
			_, err = f.Rebuild(ctx, numbers(0, 10, 99, nil), nil)
			assert.ErrorIs(t, err, context.Canceled, "a context that has ended")
			maybe("after the end of a context")
			_, err = f.Rebuild(t.Context(), nil, nil)
			assert.True(t, err != nil, "no iterator")
			maybe("without an iterator")

			var progress []int
			n, err = f.Rebuild(t.Context(), numbers(5000, 9000, 0, nil), func(n int) { progress = append(progress, n) })
			assert.NoError(t, err, "what was left")
			assert.True(t, n == 4000 && len(progress) > 3 && progress[len(progress)-1] == n, "progress %v of %d", progress, n)
			for i := range uint64(9000) {
				assert.True(t, f.MaybeSeen(id(i)), "%d is there", i)
			}
			assert.True(t, !f.Add(id(77_000)), "what was added meanwhile is there")
			assert.True(t, f.Stats().Whole, "whole")
			fresh := 0
			for i := range uint64(1000) {
				if f.Add(id(1<<50 + i)) {
					fresh++
				}
			}
			assert.True(t, fresh > 900, "new ones: %d of 1000", fresh)

			_, err = f.Rebuild(t.Context(), numbers(0, 1, 0, func() error { return errSource }), nil)
			assert.ErrorIs(t, err, errSource, "of a filter that was whole")
			maybe("after that")
			f.MarkWhole()
			assert.True(t, f.Stats().Whole, "marked")
		})
	}
}

// TestRebuildFromAStore: reads the ids of records page by page. An error of the store is an error
// of the rebuild.
func TestRebuildFromAStore(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	e := retrysafe.New(store, &retrysafe.Options{Sweep: -1})
	for i := range uint64(50) {
		_, err := retrysafe.Do(t.Context(), e, retrysafe.Key{Tenant: "ann", Operation: "import", ID: retrysafe.KeyPart(string(rune('a' + i)))},
			func(context.Context) (int, error) { return 0, nil })
		assert.NoError(t, err, "a record")
	}
	b := newBloom(t, filter.Options{Items: 1000, FalsePositive: 1e-6})
	skip := string(rune('b'))
	n, err := b.Rebuild(t.Context(), filter.Records(t.Context(), store, storeapi.ListRequest{Limit: 7}, func(r *retrysafe.Record) []byte {
		if r.Key.ID == skip {
			return nil
		}
		return []byte(r.Key.ID)
	}), nil)
	assert.NoError(t, err, "rebuild")
	assert.Equal(t, n, 49, "records")
	assert.True(t, !b.Add([]byte("a")) && b.Add([]byte(skip)), "what is in")

	_, err = b.Rebuild(t.Context(), filter.Records(t.Context(), noStore{}, storeapi.ListRequest{}, nil), nil)
	assert.ErrorIs(t, err, errSource, "a store that is away")
	for _, err := range filter.Records(t.Context(), store, storeapi.ListRequest{}, func(*retrysafe.Record) []byte { return []byte("x") }) {
		assert.NoError(t, err, "the first")
		break // the caller may stop early
	}
}

type noStore struct{}

func (noStore) List(context.Context, storeapi.ListRequest) (storeapi.Page, error) {
	return storeapi.Page{}, errSource
}
