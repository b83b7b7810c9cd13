package redis_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestRedisLight: done work is not done again, and the store keeps nothing else about it.
func TestRedisLight(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	s := teststores.Redis(t, servers.RueidisTo(t, server.Addr), &redisstore.Options{Light: true})
	e := retrysafe.New(s, &retrysafe.Options{Namespace: "app", Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	assert.NoError(t, e.CheckSecret(t.Context()), "the secret")
	other := retrysafe.New(s, &retrysafe.Options{Namespace: "app", Sweep: -1, Secret: []byte("another secret of 24 bytes"), Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = other.Shutdown(context.Background()) })
	assert.ErrorIs(t, other.CheckSecret(t.Context()), retrysafe.ErrSecretChanged, "another secret")
	for name, tt := range map[string]struct {
		policy retrysafe.Policy
		want   error
	}{
		"by default": {retrysafe.Policy{}, retrysafe.ErrAnswerNotKept},
		"reject":     {retrysafe.Policy{Duplicate: retrysafe.Reject}, retrysafe.ErrDuplicate},
		"succeed":    {retrysafe.Policy{Duplicate: retrysafe.Succeed}, nil},
	} {
		runs := 0
		run := func(payload string) error {
			_, err := retrysafe.Do(t.Context(), e.WithPolicy(tt.policy), retrysafe.Key{Operation: "message", ID: name}, func(context.Context) (string, error) {
				runs++
				return "an answer that nobody keeps", nil
			}, retrysafe.WithPayload(payload))
			return err
		}
		assert.NoError(t, run("a"), "%s: the first", name)
		for range 2 {
			err := run("another payload") // no fingerprint is kept
			assert.True(t, tt.want == nil && err == nil || tt.want != nil && errors.Is(err, tt.want), "%s: a repeat: %v", name, err)
		}
		assert.Equal(t, runs, 1, "%s: runs", name)
	}
	key := storeapi.StoreKey{Namespace: "app", Layer: "fn", Key: retrysafe.Key{Operation: "message", ID: "reject"}}
	rec, err := s.Lookup(t.Context(), key)
	assert.NoError(t, err, "look up")
	assert.Equal(t, rec.State, retrysafe.StateCompleted, "state")
	left := rec.Expires.Sub(rec.Now)
	assert.True(t, left > 23*time.Hour && left <= 24*time.Hour+time.Millisecond, "retention: %v", left)
	text, _ := key.MarshalText()
	assert.Equal(t, servers.RedisDo(server.Addr, "STRLEN", "rs:"+string(text)), "40", "bytes of the record")
	// Steps are kept while they are needed, and removed in the end.
	again := e.WithPolicy(retrysafe.Policy{OnDoubt: retrysafe.Reexecute})
	did := 0
	for i, want := range []error{retrysafe.ErrInDoubt, nil} {
		_, err := retrysafe.Do(t.Context(), again, retrysafe.Key{Operation: "message", ID: "steps"}, func(ctx context.Context) (string, error) {
			_, err := retrysafe.Step(ctx, "one", func(context.Context) (int, error) { did++; return did, nil })
			if i == 0 {
				return "", errors.Join(err, retrysafe.InDoubt(retrysafe.ErrInDoubt))
			}
			return "", err
		})
		assert.True(t, errors.Is(err, want), "a call of a step: %v", err)
	}
	assert.Equal(t, did, 1, "runs of the step")
	steps := key
	steps.ID = "steps"
	text, _ = steps.MarshalText()
	assert.Equal(t, servers.RedisDo(server.Addr, "STRLEN", "rs:"+string(text)), "40", "bytes of a record that had steps")
	// Work that failed after an earlier attempt takes more space while it runs, and as little in
	// the end.
	a, _, err := e.Begin(t.Context(), retrysafe.Key{Operation: "message", ID: "again"})
	assert.NoError(t, err, "begin")
	assert.NoError(t, a.Release(t.Context(), errors.New("nothing was done")), "release")
	a, _, err = e.Begin(t.Context(), retrysafe.Key{Operation: "message", ID: "again"})
	assert.NoError(t, err, "begin again")
	assert.NoError(t, a.Fail(t.Context(), &retrysafe.Failure{Code: "no"}), "fail")
	key.ID = "again"
	rec, err = s.Lookup(t.Context(), key)
	assert.NoError(t, err, "look up")
	assert.Equal(t, fmt.Sprint(rec.State, rec.Attempt, len(rec.Answer.Body), rec.LastError), "failed 2 0", "the record")
}

// TestRedisLightStore runs the contract on records in the light form.
func TestRedisLightStore(t *testing.T) {
	t.Parallel()
	servers.EachRedis(t, func(t *testing.T, k *servers.RedisKind) {
		t.Helper()
		f := batching
		f.Light, f.Durable = true, false
		storetest.Run(t, func(t *testing.T) storetest.Backend {
			t.Helper()
			server, stall := redisToStall(t, &k.Shared, k.Start)
			s := teststores.Redis(t, servers.RedisClients["rueidis"](t, "redis://"+server.Addr), &redisstore.Options{Prefix: servers.RedisPrefix(), Light: true})
			return storetest.Backend{Store: s, Stall: stall}
		}, f)
	})
}

// TestSoakRedisLightIsSmall: by the server's own accounting, compared with a bare SET of the same
// keys. The goal is at most 1.6 times.
func TestSoakRedisLightIsSmall(t *testing.T) {
	t.Parallel()
	n := 20_000
	if waits.LongSoak() {
		n = 1_000_000
	}
	used := func(addr string) int64 {
		for line := range strings.Lines(servers.RedisDo(addr, "INFO", "memory")) {
			if v, ok := strings.CutPrefix(line, "used_memory:"); ok {
				bytes, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
				return bytes
			}
		}
		return 0
	}
	name := func(i int) retrysafe.Key {
		return retrysafe.Key{Tenant: "u1", Operation: "message", ID: fmt.Sprintf("01J9%022d", i)}
	}
	bare := servers.StartRedis(t)
	c := redis.NewClient(&redis.Options{Addr: bare.Addr})
	t.Cleanup(func() { _ = c.Close() })
	before := used(bare.Addr)
	p := c.Pipeline()
	for i := range n {
		text, _ := storeapi.StoreKey{Namespace: "app", Layer: "fn", Key: name(i)}.MarshalText()
		p.SetNX(t.Context(), "rs:"+string(text), "1", 24*time.Hour)
	}
	_, err := p.Exec(t.Context())
	assert.NoError(t, err, "bare keys")
	perBare := float64(used(bare.Addr)-before) / float64(n)

	light := servers.StartRedis(t)
	s := teststores.Redis(t, servers.RueidisTo(t, light.Addr), &redisstore.Options{Light: true})
	before = used(light.Addr)
	e := retrysafe.New(s, &retrysafe.Options{Namespace: "app", Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	work := make(chan int)
	done := make(chan error, 64)
	for range 64 {
		go func() {
			var first error
			for i := range work {
				if _, err := retrysafe.Run(t.Context(), e, name(i), func(context.Context) error { return nil }); err != nil && first == nil {
					first = err
				}
			}
			done <- first
		}()
	}
	for i := range n {
		work <- i
	}
	close(work)
	for range 64 {
		assert.NoError(t, <-done, "a run")
	}
	servers.RedisDo(light.Addr, "MEMORY", "PURGE")
	perLight := float64(used(light.Addr)-before) / float64(n)
	t.Logf("bytes a key, %d keys: bare SET %.0f, light record %.0f: %.2f times", n, perBare, perLight, perLight/perBare)
	assert.True(t, perLight <= 1.6*perBare, "bytes a key: bare %.0f, light %.0f", perBare, perLight)
}
