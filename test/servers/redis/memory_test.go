package redis_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/gateway/config"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestRedisFull: while the server's memory is full nothing new runs, and callers get an error that
// says so. Running work finishes, and when there is memory again everything works.
func TestRedisFull(t *testing.T) {
	t.Parallel()
	for adapter, connect := range servers.RedisClients {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			server := servers.StartRedis(t, "--maxmemory-policy", "noeviction")
			s := teststores.Redis(t, connect(t, "redis://"+server.Addr), nil)
			e := teststores.ShortEngine(t, s, retrysafe.Policy{})
			front := newShopFront(t, e)
			full, began := make(chan struct{}), make(chan struct{}, 4)
			ends := map[string]func() (int64, error){
				"done":    func() (int64, error) { return 7, nil },
				"nothing": func() (int64, error) { return 0, retrysafe.NothingDone(errFaultWork) },
				"refused": func() (int64, error) { return 0, retrysafe.Permanent("refused", errFaultWork) },
				"doubt":   func() (int64, error) { return 0, errFaultWork },
			}
			through := make(chan error, len(ends))
			for id, end := range ends {
				go func() {
					_, err := retrysafe.Do(t.Context(), e, teststores.OrderKey(id), func(context.Context) (int64, error) {
						began <- struct{}{}
						<-full
						return end()
					})
					through <- err
				}()
			}
			for range ends {
				<-began
			}
			servers.RedisDo(server.Addr, "DEBUG", "POPULATE", 3000, "other", 2000)
			assert.Equal(t, servers.RedisDo(server.Addr, "CONFIG", "SET", "maxmemory", "4mb"), "OK", "less than the other keys take")

			var w work
			_, err := retrysafe.Do(t.Context(), e, teststores.OrderKey("new"), w.run)
			assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "a new call")
			assert.Contains(t, err.Error(), "its memory is full", "what it says")
			got := front.postOrder(t, "new")
			assert.Equal(t, got.status, 503, "status of a new request (%s)", got.body)
			assert.Equal(t, got.code, "store-unavailable", "code")
			assert.True(t, got.retryAfter, "it has Retry-After")
			assert.Equal(t, w.runs.Load()+front.runs.Load(), int64(0), "runs while memory is full")

			close(full)
			for range ends {
				err := <-through
				assert.True(t, err == nil || strings.Contains(err.Error(), errFaultWork.Error()), "what ran already: %v", err)
			}
			for id, want := range map[string]retrysafe.State{
				"done": retrysafe.StateCompleted, "nothing": retrysafe.StateReleased, "refused": retrysafe.StateFailed, "doubt": retrysafe.StateInProgress,
			} {
				rec, err := s.Lookup(t.Context(), teststores.OrderStoreKey(id))
				assert.NoError(t, err, "look")
				assert.Equal(t, rec.State, want, "state of %s", id)
				assert.Equal(t, rec.InDoubt(), id == "doubt", "%s is in doubt", id)
			}
			rec, err := s.Lookup(t.Context(), teststores.OrderStoreKey("done"))
			assert.NoError(t, err, "look")
			assert.True(t, rec.Answer.Kept, "the answer is kept")

			res, err := retrysafe.Do(t.Context(), e, teststores.OrderKey("done"), w.run)
			assert.True(t, err == nil && res.Replayed && res.Value == 7, "a repeat while memory is full: %+v %v", res, err)
			_, err = retrysafe.Do(t.Context(), e, teststores.OrderKey("refused"), w.run)
			var failure *retrysafe.Failure
			assert.True(t, errors.As(err, &failure) && failure.Code == "refused", "a repeat of a refusal while memory is full: %v", err)
			assert.Equal(t, w.runs.Load(), int64(0), "runs of repeats")
			servers.RedisDo(server.Addr, "CONFIG", "SET", "maxmemory", "0")
			res, err = retrysafe.Do(t.Context(), e, teststores.OrderKey("new"), w.run)
			assert.NoError(t, err, "when there is room again")
			assert.True(t, res.Stored && !res.Replayed, "it runs: %+v", res)
			assert.Equal(t, front.postOrder(t, "new").status, 201, "status of a request when there is room again")
			assert.Equal(t, len(listInDoubt(t, s)), 1, "records in doubt")
		})
	}
}

// TestRedisFullOfRefusals: 8,000 requests of a stranger that the service refuses do not fill a
// small server, and customers are still served.
func TestRedisFullOfRefusals(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, "--maxmemory", "6mb", "--maxmemory-policy", "noeviction")
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer customer" {
			w.WriteHeader(http.StatusCreated)
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(up.Close)
	c, err := config.Parse([]byte("upstream: "+up.URL+"\ntrusted_proxies: [127.0.0.0/8]\nlimits: {new_by_address: {per_s: 5, burst: 200}}\n"), nil)
	assert.NoError(t, err, "parse")
	o, policy, err := c.Options()
	assert.NoError(t, err, "options")
	o.Logger = slog.New(slog.DiscardHandler)
	e := teststores.ShortEngine(t, teststores.Redis(t, servers.RedisClients["rueidis"](t, "redis://"+server.Addr), nil), policy)
	g, err := gateway.New(e, o)
	assert.NoError(t, err, "gateway")
	t.Cleanup(func() { _ = g.Close() })
	front := httptest.NewServer(g)
	t.Cleanup(front.Close)
	send := func(key, bearer, address string) (status int) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+"/orders", strings.NewReader("tea"))
		assert.NoError(t, err, "request")
		r.Header = http.Header{"Idempotency-Key": {key}, "Authorization": {"Bearer " + bearer}, "X-Forwarded-For": {address}}
		resp, err := http.DefaultClient.Do(r)
		assert.NoError(t, err, "send")
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	const strangers, each, refused = 4, 2000, 8000
	var all sync.WaitGroup
	var told sync.Map
	for s := range strangers {
		all.Go(func() {
			for i := range each {
				told.Store(send(fmt.Sprint("a-key-of-a-stranger-", s, "-", i), fmt.Sprint("wrong", i), "192.0.2.1"), true)
			}
		})
	}
	all.Wait()
	for status := range told.Range {
		assert.True(t, status == 401 || status == 429, "a stranger was told %v", status)
	}
	for i := range 200 {
		key := fmt.Sprint("a-key-of-a-customer-", i)
		assert.Equal(t, send(key, "customer", "192.0.2.2"), 201, "customer %d after %d refusals", i, refused)
		assert.Equal(t, send(key, "customer", "192.0.2.2"), 201, "a repeat")
	}
}
