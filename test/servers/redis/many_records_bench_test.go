package redis_test

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// BenchmarkManyRecords fills a server with as many completed records as the benchmark's number
// (-benchtime 10000000x), and measures lists and look-ups. Ten million take about 6 GB of memory.
func BenchmarkManyRecords(b *testing.B) {
	if b.N == 1 {
		return // the trial run of the package testing
	}
	b.ReportMetric(0, "ns/op")
	server := servers.StartRedis(b, "--save", "", "--appendonly", "no")
	s, err := redisstore.New(b.Context(), servers.RueidisTo(b, server.Addr), &redisstore.Options{Logger: slog.New(slog.DiscardHandler)})
	assert.NoError(b, err, "the store")
	before := memoryOf(server.Addr)
	m := &manyRecords{b: b, store: s, addr: server.Addr}
	m.copyRecord()
	b.ReportMetric((memoryOf(server.Addr)-before)/float64(b.N), "bytes/record")
	m.claimUnfinished(1000)
	unfinished := storeapi.ListRequest{State: storeapi.StateInProgress, Limit: 100}
	doubts := storeapi.ListRequest{InDoubt: true, Limit: 100}
	for _, lists := range []string{"scan", "index"} {
		page, took := m.timePage(doubts)
		assert.Equal(b, len(page.Records), 100, "records in doubt")
		assert.Equal(b, page.Scans, lists == "scan", "the page scans")
		b.ReportMetric(took, "ms-doubts-by-"+lists)
		if lists == "scan" {
			m.awaitIndex()
		}
	}
	b.ReportMetric(m.medianPage(doubts), "ms-doubts-page")
	b.ReportMetric(m.medianPage(unfinished), "ms-unfinished-page")
	b.ReportMetric(m.medianLookup(), "µs-lookup")
	// One pass over all names. A list of all records makes one for each 65,536 of them.
	_, took := m.timePage(storeapi.ListRequest{Tenant: "no such tenant"})
	b.ReportMetric(took/1000, "s-full-scan")
}

// BenchmarkGrowth compares a server with as many completed records as the benchmark's number with
// an empty one, in turn, at 64 callers: new keys and replays. Redis removes expired records itself.
// The page is the first one of the records in doubt, among a thousand unfinished ones.
func BenchmarkGrowth(b *testing.B) {
	b.Run("Redis", func(b *testing.B) {
		if b.N == 1 {
			return // the trial run of the package testing
		}
		b.ReportMetric(0, "ns/op")
		var stores [2]*redisstore.Store
		var m *manyRecords
		for i := range stores {
			server := servers.StartRedis(b, "--save", "", "--appendonly", "no")
			stores[i] = teststores.Redis(b, servers.RueidisTo(b, server.Addr), nil)
			m = &manyRecords{b: b, store: stores[i], addr: server.Addr}
		}
		m.copyRecord() // on the second
		m.measureGrowth(stores[0])
	})
}

func (m *manyRecords) measureGrowth(empty *redisstore.Store) {
	m.b.Helper()
	const rounds, callers, each = 5, 64, 800
	measured := map[string][]float64{}
	for round := range rounds {
		for _, when := range [][]string{{"empty", "full"}, {"full", "empty"}}[round%2] {
			s := map[string]*redisstore.Store{"empty": empty, "full": m.store}[when]
			var next atomic.Int64
			key := func() storeapi.StoreKey { return manyKey(fmt.Sprint(round, "-", next.Add(1))) }
			rate := callsPerSecond(m.b, callers, each, func(ctx context.Context) error { return completeKey(ctx, s, key()) })
			measured[when+"-keys/s"] = append(measured[when+"-keys/s"], rate)
			next.Store(0)
			rate = callsPerSecond(m.b, callers, each, func(ctx context.Context) error {
				got, err := acquireKey(ctx, s, key())
				if err == nil && got.Status != storeapi.StatusFinished {
					err = fmt.Errorf("a finished key is %v", got.Status)
				}
				return err
			})
			measured[when+"-replays/s"] = append(measured[when+"-replays/s"], rate)
		}
	}
	for name, all := range measured {
		m.b.ReportMetric(medianOf(all), name)
	}
	m.claimUnfinished(1000)
	doubts := storeapi.ListRequest{InDoubt: true, Limit: 100}
	m.timePage(doubts)
	m.awaitIndex()
	m.b.ReportMetric(m.medianPage(doubts), "ms-page")
}

func acquireKey(ctx context.Context, s *redisstore.Store, key storeapi.StoreKey) (storeapi.Acquired, error) {
	r := storeapi.AcquireRequest{Key: key, Lease: time.Minute, Retention: time.Hour, OnDoubt: storeapi.Refuse, Fingerprint: make([]byte, 33)}
	_, _ = crand.Read(r.Owner[:])
	return s.Acquire(ctx, r)
}

func completeKey(ctx context.Context, s *redisstore.Store, key storeapi.StoreKey) error {
	got, err := acquireKey(ctx, s, key)
	if err == nil && got.Status != storeapi.StatusAcquired {
		err = fmt.Errorf("a new key is %v", got.Status)
	}
	if err != nil {
		return err
	}
	_, err = s.Complete(ctx, storeapi.CompleteRequest{
		Key: got.Record.Key, Owner: got.Record.Owner, Fence: got.Record.Fence, State: storeapi.StateCompleted,
		Answer: storeapi.Answer{Codec: "raw", Kept: true, Size: 256, Body: make([]byte, 256)}, Retention: time.Hour, Quiet: true,
	})
	return err
}

type manyRecords struct {
	b     *testing.B
	store *redisstore.Store
	addr  string
}

func manyKey(id string) storeapi.StoreKey {
	return storeapi.StoreKey{Namespace: "app", Layer: "fn", Key: storeapi.Key{Tenant: "tenant", Operation: "charge", ID: id}}
}

// copyRecord completes one record through the store, and copies it on the server.
func (m *manyRecords) copyRecord() {
	m.b.Helper()
	key := manyKey("original")
	got, err := m.store.Acquire(m.b.Context(), storeapi.AcquireRequest{
		Key: key, Owner: storeapi.Owner{1}, Lease: time.Hour, Retention: 24 * time.Hour, OnDoubt: storeapi.Refuse, Fingerprint: make([]byte, 33),
	})
	assert.NoError(m.b, err, "claim")
	_, err = m.store.Complete(m.b.Context(), storeapi.CompleteRequest{
		Key: key, Fence: got.Record.Fence, Owner: storeapi.Owner{1}, State: storeapi.StateCompleted, Retention: 24 * time.Hour,
		Answer: storeapi.Answer{Codec: "raw", Kept: true, Size: 256, Body: make([]byte, 256)},
	})
	assert.NoError(m.b, err, "complete")
	text, err := key.MarshalText()
	assert.NoError(m.b, err, "the text of a key")
	// The names are in no order, as those of random keys.
	const script = `local v, till = redis.call('GET', KEYS[1]), redis.call('PEXPIRETIME', KEYS[1])
		for i = ARGV[2], ARGV[3] do redis.call('SET', ARGV[1] .. string.sub(redis.sha1hex(i), 1, 36), v, 'PXAT', till) end return 'OK'`
	begun, prefix := time.Now(), "rs:"+strings.TrimSuffix(string(text), "original")
	for at := 1; at <= m.b.N; at += 20000 {
		to := min(at+19999, m.b.N)
		assert.Equal(m.b, servers.RedisDo(m.addr, "EVAL", script, 1, "rs:"+string(text), prefix, at, to), "OK", "copies")
	}
	m.b.Logf("filled in %v", time.Since(begun).Round(time.Second))
}

// claimUnfinished claims keys, and leaves half of them in doubt.
func (m *manyRecords) claimUnfinished(n int) {
	m.b.Helper()
	for i := range n {
		key := manyKey(strconv.Itoa(i) + " unfinished")
		got, err := m.store.Acquire(m.b.Context(), storeapi.AcquireRequest{
			Key: key, Owner: storeapi.Owner{1}, Lease: time.Hour, Retention: time.Hour, OnDoubt: storeapi.Refuse,
		})
		assert.NoError(m.b, err, "claim")
		if i%2 == 1 {
			err = m.store.Release(m.b.Context(), storeapi.ReleaseRequest{Key: key, Fence: got.Record.Fence, Owner: storeapi.Owner{1}, InDoubt: true})
			assert.NoError(m.b, err, "doubt")
		}
	}
}

// timePage returns a page, and how many milliseconds it took.
func (m *manyRecords) timePage(req storeapi.ListRequest) (storeapi.Page, float64) {
	m.b.Helper()
	begun := time.Now()
	page, err := m.store.List(m.b.Context(), req)
	assert.NoError(m.b, err, "list")
	return page, float64(time.Since(begun).Microseconds()) / 1000
}

// awaitIndex waits until the index is complete; the first list has begun to build it.
func (m *manyRecords) awaitIndex() {
	m.b.Helper()
	for servers.RedisDo(m.addr, "ZSCORE", "rs:unfinished", "") != "0" {
		select {
		case <-m.b.Context().Done():
			m.b.Fatal("the index was not completed")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// medianPage returns the median time of the first page in milliseconds.
func (m *manyRecords) medianPage(req storeapi.ListRequest) float64 {
	m.b.Helper()
	var all []float64
	for range 21 {
		page, took := m.timePage(req)
		assert.True(m.b, len(page.Records) == 100 && !page.Scans, "a page by index: %d records", len(page.Records))
		all = append(all, took)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// medianLookup returns the median time of a look-up of a random record in microseconds.
func (m *manyRecords) medianLookup() float64 {
	m.b.Helper()
	var all []float64
	for range 1001 {
		id := servers.RedisDo(m.addr, "EVAL", "return redis.sha1hex(ARGV[1])", 0, 1+rand.IntN(m.b.N))[:36]
		begun := time.Now()
		rec, err := m.store.Lookup(context.Background(), manyKey(id))
		all = append(all, float64(time.Since(begun).Nanoseconds())/1000)
		assert.NoError(m.b, err, "look up")
		assert.Equal(m.b, rec.State, storeapi.StateCompleted, "the state of a copy")
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// memoryOf returns the bytes that a server uses.
func memoryOf(addr string) (n float64) {
	for line := range strings.Lines(servers.RedisDo(addr, "INFO", "memory")) {
		_, _ = fmt.Sscanf(line, "used_memory:%f", &n)
	}
	return n
}
