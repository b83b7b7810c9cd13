package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// benchFlags are the flags of bench store.
type benchFlags struct {
	store    string
	workers  int
	duration time.Duration
	json     bool
	naive    bool // do not batch calls
}

func benchCommand() *cobra.Command {
	var f benchFlags
	bench := &cobra.Command{Use: "bench", Short: "Measure a store", RunE: onlySubcommands}
	store := &cobra.Command{
		Use: "store", Args: cobra.NoArgs, Short: "Measure how many keys a second a store handles",
		Long: "bench store acquires and completes new keys, and then replays them. An answer has 256 bytes. The records are in their own\n" +
			"namespace, bench-…, and expire after 15 minutes. A store in use gets slower while this runs.",
		RunE: func(c *cobra.Command, _ []string) error { return f.benchStore(c) },
	}
	store.Flags().StringVar(&f.store, "store", "sqlite:retrysafe.db", "the store: memory:, sqlite:PATH, redis://HOST, redis+sentinel://HOST/NAME, redis+cluster://HOST, postgres://HOST/DATABASE or mysql://HOST/DATABASE")
	ignoreEnvironment(store.Flags()) // the command makes records
	store.Flags().IntVar(&f.workers, "workers", 64, "concurrent callers")
	store.Flags().DurationVar(&f.duration, "duration", 5*time.Second, "duration of each of the two parts, at most a minute")
	store.Flags().BoolVar(&f.json, "json", false, "print one JSON object, and no progress")
	store.Flags().BoolVar(&f.naive, "naive", false, "send each call alone: no group commit in SQL, no pipelining to Redis (memory: has neither)")
	bench.AddCommand(store)
	return bench
}

// benchResult is the result. A latency is the time of a key's claim and completion together.
type benchResult struct {
	Store            string  `json:"store"` // without a password
	Workers          int     `json:"workers"`
	BeginCompletePer float64 `json:"begin_complete_per_s"`
	ReplayPer        float64 `json:"replay_per_s"`
	P50              float64 `json:"p50_ms"`
	P99              float64 `json:"p99_ms"`
	Naive            bool    `json:"naive,omitempty"`
}

func (f *benchFlags) benchStore(c *cobra.Command) (err error) {
	if f.workers < 1 || f.workers > 10_000 || f.duration < 10*time.Millisecond || f.duration > time.Minute {
		return &usageError{errors.New("--workers is from 1 to 10000, and --duration from 10ms to 1m")}
	}
	name, err := parseStore(f.store)
	if err != nil {
		return &usageError{err}
	}
	s, closeStore, err := openStore(c.Context(), f.store, newLogger(c.ErrOrStderr()), toServe, storeSettings{naive: f.naive})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	b := &bencher{store: s, workers: f.workers, duration: f.duration, namespace: "bench-" + rand.Text()[:8], progress: c.ErrOrStderr()}
	if f.json {
		b.progress = io.Discard
	}
	res := benchResult{Store: fmt.Sprint(name), Workers: f.workers, Naive: f.naive}
	var took []time.Duration
	if res.BeginCompletePer, took, err = b.measureCalls(c.Context(), "begin and complete", b.beginComplete); err != nil {
		return err
	}
	res.P50, res.P99 = percentile(took, 50), percentile(took, 99)
	b.keys = len(took)
	if res.ReplayPer, _, err = b.measureCalls(c.Context(), "replay", b.replayKey); err != nil {
		return err
	}
	if f.json {
		return json.NewEncoder(c.OutOrStdout()).Encode(res)
	}
	fmt.Fprintf(c.OutOrStdout(), "%s, %d workers: begin and complete %.0f/s (p50 %.2f ms, p99 %.2f ms), replay %.0f/s\n", res.Store, res.Workers,
		res.BeginCompletePer, res.P50, res.P99, res.ReplayPer)
	return nil
}

// bencher calls a store.
type bencher struct {
	store     storeapi.Store
	workers   int
	duration  time.Duration
	namespace string
	progress  io.Writer
	keys      int // completed keys, numbered from 0
}

// measureCalls makes calls for the duration, and returns the rate per second and how long each call
// took.
func (b *bencher) measureCalls(ctx context.Context, name string, call func(context.Context, int) error) (float64, []time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begun := time.Now()
	end := begun.Add(b.duration)
	var next atomic.Int64
	all := make([][]time.Duration, b.workers)
	var working sync.WaitGroup
	for w := range b.workers {
		working.Go(func() {
			for at := time.Now(); at.Before(end) && ctx.Err() == nil; {
				if err := call(ctx, int(next.Add(1)-1)); err != nil {
					cancel(err) // only the first error counts
					return
				}
				now := time.Now()
				all[w] = append(all[w], now.Sub(at))
				at = now
			}
		})
	}
	done := make(chan struct{})
	go func() { working.Wait(); close(done) }()
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-tick.C:
			fmt.Fprintf(b.progress, "%s: %d after %v\n", name, next.Load(), time.Since(begun).Round(time.Second))
			continue
		case <-done:
		}
		tick.Stop()
		break
	}
	took := slices.Concat(all...)
	return float64(len(took)) / time.Since(begun).Seconds(), took, context.Cause(ctx)
}

// benchRetention is longer than both parts together.
const benchRetention = 15 * time.Minute

var benchAnswer = retrysafe.Answer{Codec: "raw", Kept: true, Body: make([]byte, 256)}

func (b *bencher) acquireKey(ctx context.Context, i int, want storeapi.Status) (retrysafe.Record, error) {
	req := storeapi.AcquireRequest{
		Key:         storeapi.StoreKey{Namespace: b.namespace, Layer: "fn", Key: retrysafe.Key{Tenant: "bench", Operation: "bench", ID: strconv.Itoa(i)}},
		Fingerprint: make([]byte, 33), Lease: time.Minute, Retention: benchRetention, OnDoubt: retrysafe.Refuse,
	}
	_, _ = rand.Read(req.Owner[:])
	got, err := b.store.Acquire(ctx, req)
	if err == nil && got.Status != want {
		err = fmt.Errorf("the store answers %q instead of %q for a key of the namespace %s; it may have lost records, for example by eviction", got.Status, want, b.namespace)
	}
	return got.Record, err
}

func (b *bencher) beginComplete(ctx context.Context, i int) error {
	rec, err := b.acquireKey(ctx, i, storeapi.StatusAcquired)
	if err != nil {
		return err
	}
	_, err = b.store.Complete(ctx, storeapi.CompleteRequest{
		Key: rec.Key, Owner: rec.Owner, Fence: rec.Fence, State: retrysafe.StateCompleted, Answer: benchAnswer, Retention: benchRetention, Quiet: true,
	})
	return err
}

func (b *bencher) replayKey(ctx context.Context, i int) error {
	_, err := b.acquireKey(ctx, i%b.keys, storeapi.StatusFinished)
	return err
}

// percentile returns a percentile of took, in milliseconds. took must not be empty.
func percentile(took []time.Duration, p float64) float64 {
	slices.Sort(took)
	at := int(math.Ceil(float64(len(took))*p/100)) - 1
	return float64(took[max(at, 0)].Nanoseconds()) / 1e6
}
