package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Benchmark measures the most frequent calls: the first use of a key, a replay, a call for a key
// that another caller holds, and a heartbeat. Calls come from GOMAXPROCS goroutines; "-cpu 1"
// measures one caller, b.SetParallelism in open many. Benchmark calls open once for each of the
// four, for an empty store.
func Benchmark(b *testing.B, open func(b *testing.B) storeapi.Store) {
	b.Helper()
	for _, c := range []struct {
		name string
		// prepare returns one call, which many goroutines make repeatedly.
		prepare func(*bench) func(context.Context) error
	}{
		{"acquire+complete", benchFirst},
		{"replay", benchReplay},
		{"contended", benchContended},
		{"extend", benchExtend},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := &bench{store: open(b), b: b}
			call := c.prepare(s)
			ctx := b.Context()
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := call(ctx); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

type bench struct {
	store storeapi.Store
	b     *testing.B
	n     atomic.Int64
}

// benchAnswer has the size of a small JSON document.
var benchAnswer = rawAnswer(strings.Repeat(`{"id":1}`, 32))

func (s *bench) newRequest() storeapi.AcquireRequest {
	n := s.n.Add(1)
	var owner storeapi.Owner
	for i := range 8 {
		owner[i] = byte(n >> (8 * i))
	}
	id := fmt.Sprintf("%032x", n)
	return storeapi.AcquireRequest{
		Key:   storeapi.StoreKey{Namespace: "bench", Layer: "fn", Key: storeapi.Key{Tenant: "tenant", Operation: "charge", ID: id}},
		Owner: owner, Fingerprint: []byte("\x01 a digest of thirty-two bytes ..."), Lease: time.Hour, Retention: 24 * time.Hour,
		OnDoubt: storeapi.Refuse,
	}
}

func (s *bench) acquire(ctx context.Context, req storeapi.AcquireRequest, want storeapi.Status) (storeapi.Record, error) {
	a, err := s.store.Acquire(ctx, req)
	if err == nil && a.Status != want {
		err = fmt.Errorf("acquire: got %s, want %s", statusName(a.Status), statusName(want))
	}
	return a.Record, err
}

func (s *bench) claimNew() storeapi.Record {
	s.b.Helper()
	r, err := s.acquire(s.b.Context(), s.newRequest(), storeapi.StatusAcquired)
	if err != nil {
		s.b.Fatal(err)
	}
	return r
}

func benchFirst(s *bench) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := s.acquire(ctx, s.newRequest(), storeapi.StatusAcquired)
		if err != nil {
			return err
		}
		_, err = s.store.Complete(ctx, storeapi.CompleteRequest{
			Key: r.Key, Owner: r.Owner, Fence: r.Fence, State: storeapi.StateCompleted, Answer: benchAnswer,
		})
		return err
	}
}

func benchReplay(s *bench) func(context.Context) error {
	r := s.claimNew()
	if _, err := s.store.Complete(s.b.Context(), completeRequest(r, string(benchAnswer.Body))); err != nil {
		s.b.Fatal(err)
	}
	req := s.newRequest()
	req.Key = r.Key
	return func(ctx context.Context) error {
		_, err := s.acquire(ctx, req, storeapi.StatusFinished)
		return err
	}
}

func benchContended(s *bench) func(context.Context) error {
	r := s.claimNew()
	req := s.newRequest()
	req.Key = r.Key
	return func(ctx context.Context) error {
		_, err := s.acquire(ctx, req, storeapi.StatusInProgress)
		return err
	}
}

func benchExtend(s *bench) func(context.Context) error {
	r := s.claimNew()
	req := storeapi.ExtendRequest{Key: r.Key, Owner: r.Owner, Fence: r.Fence, Lease: time.Hour}
	return func(ctx context.Context) error { return s.store.Extend(ctx, req) }
}
