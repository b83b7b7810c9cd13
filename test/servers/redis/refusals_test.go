package redis_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/goredisclient"
	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// No error may contain secretID or secretWord.
const secretID, secretWord = "card-4111", "pass-word"

func claimOf(owner byte) storeapi.AcquireRequest {
	return storeapi.AcquireRequest{
		Key: teststores.OrderStoreKey(secretID), Owner: storeapi.Owner{owner}, Lease: time.Minute, Retention: time.Hour, OnDoubt: retrysafe.Refuse,
	}
}

// wantRefusal checks an error of the server with a code, which must be explained and contain no
// secret.
func wantRefusal(t *testing.T, err error, code, explained string) {
	t.Helper()
	var e redisclient.Error
	assert.True(t, errors.As(err, &e), "the server refuses: %v", err)
	assert.Equal(t, e.Code(), code, "code of %v", err)
	assert.Contains(t, err.Error(), explained, "explanation")
	for _, secret := range []string{secretID, secretWord} {
		assert.True(t, !strings.Contains(err.Error(), secret), "%q tells %s", err.Error(), secret)
	}
}

// TestRedisRefusals: each refusal of a server is reported with its meaning, without keys or
// passwords, and nothing runs.
func TestRedisRefusals(t *testing.T) {
	t.Parallel()
	text, err := teststores.OrderStoreKey(secretID).MarshalText()
	assert.NoError(t, err, "text of the key")
	name := "rs:" + string(text)
	for adapter, connect := range servers.RedisClients {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			primary, replica := servers.StartCouple(t)
			s := teststores.Redis(t, connect(t, "redis://"+primary.Addr), nil)
			e := teststores.ShortEngine(t, s, retrysafe.Policy{})
			var w work
			all := func(what, code, explained string) {
				t.Helper()
				_, err := s.Acquire(t.Context(), claimOf(1))
				wantRefusal(t, err, code, explained)
				_, err = s.Lookup(t.Context(), teststores.OrderStoreKey(secretID))
				wantRefusal(t, err, code, explained)
				_, err = s.Complete(t.Context(), storeapi.CompleteRequest{Key: teststores.OrderStoreKey(secretID), State: retrysafe.StateCompleted, Retention: time.Hour})
				wantRefusal(t, err, code, explained)
				_, err = retrysafe.Do(t.Context(), e, teststores.OrderKey(secretID), w.run)
				assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "a call: %s", what)
				wantRefusal(t, err, code, explained)
			}

			servers.RedisDo(primary.Addr, "LPUSH", name, "an entry")
			all("a list under the key", "WRONGTYPE", "choose another Prefix")
			servers.RedisDo(primary.Addr, "DEL", name)

			servers.RedisDo(primary.Addr, "SET", name, "\x02"+strings.Repeat("\x00", 120))
			all("a record of a newer version", "RSFORMAT", "written by a newer version")
			kept := servers.RedisDo(primary.Addr, "GET", name)
			assert.Equal(t, kept[:1], "\x02", "the newer record stays")
			servers.RedisDo(primary.Addr, "DEL", name)

			behind := teststores.Redis(t, connect(t, "redis://"+replica.Addr), nil)
			_, err := behind.Acquire(t.Context(), claimOf(1))
			wantRefusal(t, err, "READONLY", "this server is a replica")
			_, err = retrysafe.Do(t.Context(), teststores.ShortEngine(t, behind, retrysafe.Policy{}), teststores.OrderKey(secretID), w.run)
			assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "a call to a replica")

			assert.Equal(t, w.runs.Load(), int64(0), "runs of what was refused")
			res, err := retrysafe.Do(t.Context(), e, teststores.OrderKey(secretID), w.run)
			assert.NoError(t, err, "when the key is clear")
			assert.True(t, res.Stored, "it runs: %+v", res)
		})
	}
}

// TestRedisLoading: a server that loads its data refuses everything, says why, and works when it is
// done.
func TestRedisLoading(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, "--loading-process-events-interval-bytes", "1024")
	s := teststores.Redis(t, servers.RueidisTo(t, server.Addr), nil)
	servers.RedisDo(server.Addr, "DEBUG", "POPULATE", 3000, "other", 100)
	servers.RedisDo(server.Addr, "CONFIG", "SET", "key-load-delay", 1000)
	through := make(chan struct{})
	go func() {
		defer close(through)
		servers.RedisDo(server.Addr, "DEBUG", "RELOAD")
	}()
	var err error
	waits.Eventually(t, "it loads", func() bool {
		_, err = s.Acquire(t.Context(), claimOf(1))
		return err != nil
	})
	wantRefusal(t, err, "LOADING", "it is loading its data")
	<-through
	waits.Eventually(t, "it is through", func() bool {
		_, err := s.Acquire(t.Context(), claimOf(1))
		return err == nil
	})
}

// TestRedisWrongPassword: no call succeeds, and errors do not contain the password.
func TestRedisWrongPassword(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	servers.RedisDo(server.Addr, "CONFIG", "SET", "requirepass", "right")
	for _, c := range []struct{ given, code, explained string }{
		{secretWord, "WRONGPASS", "user or password are wrong"},
		{"", "NOAUTH", "it wants a password"},
	} {
		r := redis.NewClient(&redis.Options{Addr: server.Addr, Password: c.given})
		t.Cleanup(func() { _ = r.Close() })
		client, err := goredisclient.New(r)
		assert.NoError(t, err, "client")
		_, err = redisstore.New(t.Context(), client, &redisstore.Options{Logger: slog.New(slog.DiscardHandler)})
		wantRefusal(t, err, c.code, c.explained)
	}
	for given, code := range map[string]string{secretWord: "WRONGPASS", "": "NOAUTH"} {
		a, err := redisclient.ParseURL("redis://:" + given + "@" + server.Addr)
		assert.NoError(t, err, "address")
		c, err := rueidisclient.Open(a)
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
			_, err = redisstore.New(t.Context(), c, &redisstore.Options{Logger: slog.New(slog.DiscardHandler)})
		}
		wantRefusal(t, err, code, "")
	}
}
