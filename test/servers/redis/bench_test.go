package redis_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// The baseline of BenchmarkRedisDo: the least that any claim and any answer cost, two scripts that
// read a key and the clock, and write.
var (
	bareClaim  = redisclient.NewScript("bare claim", "#!lua\nlocal t = redis.call('TIME') if not redis.call('GET', KEYS[1]) then redis.call('SET', KEYS[1], ARGV[1] .. t[1]) end return ARGV[2]")
	bareAnswer = redisclient.NewScript("bare answer", "#!lua\nlocal t = redis.call('TIME') local v = redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], string.sub(v, 1, 90) .. ARGV[1], 'PX', 86400000) return v")
)

// BenchmarkRedisDo compares Do for new keys, by one caller and by 64, with two bare scripts of
// about the same arguments and answers, in turn: through rueidis alone ("ratio" is calls a second
// relative to that), and through the store's client ("ratio_same_client").
func BenchmarkRedisDo(b *testing.B) {
	const rounds = 5
	server := servers.StartRedis(b)
	client := servers.RueidisTo(b, server.Addr)
	e := retrysafe.New(teststores.Redis(b, client, nil), &retrysafe.Options{Namespace: "app", Sweep: -1, Logger: slog.New(slog.DiscardHandler), Codec: retrysafe.Raw, Secret: []byte("a secret of tests")})
	b.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	answer, short, long := []byte(strings.Repeat("a", 200)), strings.Repeat("c", 120), strings.Repeat("a", 220)
	var next atomic.Int64
	do := func(ctx context.Context) error {
		key := retrysafe.Key{Tenant: "ann", Operation: "charge", ID: fmt.Sprintf("%036d", next.Add(1))}
		_, err := retrysafe.Do(ctx, e, key, func(context.Context) ([]byte, error) { return answer, nil }, retrysafe.WithPayload("tea"))
		return err
	}
	bare := func(ctx context.Context) error {
		keys := []string{fmt.Sprintf("rs:app/fn/ann/bare/%036d", next.Add(1))}
		if r := client.Eval(ctx, redisclient.Call{Script: bareClaim, Keys: keys, Args: []string{long, short[:17]}}); r.Err != nil {
			return r.Err
		}
		return client.Eval(ctx, redisclient.Call{Script: bareAnswer, Keys: keys, Args: []string{long + short}}).Err
	}
	raw, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, DisableCache: true})
	assert.NoError(b, err, "rueidis")
	b.Cleanup(raw.Close)
	alone := func(ctx context.Context) error {
		key := fmt.Sprintf("rs:app/fn/ann/bare/%036d", next.Add(1))
		if err := raw.Do(ctx, raw.B().Evalsha().Sha1(bareClaim.SHA1).Numkeys(1).Key(key).Arg(long, short[:17]).Build()).Error(); err != nil {
			return err
		}
		return raw.Do(ctx, raw.B().Evalsha().Sha1(bareAnswer.SHA1).Numkeys(1).Key(key).Arg(long+short).Build()).Error()
	}
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint("callers ", callers), func(b *testing.B) {
			each := max(1, b.N/callers)
			var ratios, same, rates []float64
			for range rounds {
				client, anchor, ours := callsPerSecond(b, callers, each, bare), callsPerSecond(b, callers, each, alone), callsPerSecond(b, callers, each, do)
				ratios, same, rates = append(ratios, ours/anchor), append(same, ours/client), append(rates, ours)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(medianOf(rates), "calls/s")
			b.ReportMetric(medianOf(ratios), "ratio")
			b.ReportMetric(medianOf(same), "ratio_same_client")
		})
	}
}

// callsPerSecond makes each calls by each of the callers at once.
func callsPerSecond(b *testing.B, callers, each int, f func(context.Context) error) float64 {
	b.Helper()
	begun := time.Now()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				if err := f(b.Context()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return float64(each*callers) / time.Since(begun).Seconds()
}

// TestRedisReplayAllocations: a replay over the network, including all allocations of the Redis
// client.
func TestRedisReplayAllocations(t *testing.T) {
	server := servers.StartRedis(t)
	e := retrysafe.New(teststores.Redis(t, servers.RueidisTo(t, server.Addr), nil), &retrysafe.Options{Namespace: "app", Sweep: -1, Logger: slog.New(slog.DiscardHandler), Codec: retrysafe.Raw, Secret: []byte("a secret of tests")})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	key := retrysafe.Key{Tenant: "ann", Operation: "charge", ID: "one"}
	do := func() {
		_, err := retrysafe.Do(t.Context(), e, key, func(context.Context) ([]byte, error) { return []byte("answer"), nil })
		assert.NoError(t, err, "call")
	}
	do()
	got := testing.AllocsPerRun(500, do)
	t.Logf("allocations of a replay: %.0f", got)
	if !raceDetector {
		assert.True(t, got <= 30, "allocations of a replay: %.0f, at most 30", got)
	}
}

func medianOf(all []float64) float64 { return slices.Sorted(slices.Values(all))[len(all)/2] }
