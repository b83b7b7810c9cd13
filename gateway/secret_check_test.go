package gateway_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

const oneSecret, otherSecret = "the first of the words", "another of the words"

// awayShop is a gateway whose store can be away.
type awayShop struct {
	store *storetest.Faulty
	away  atomic.Bool
	log   *lockedBuffer
	node  *node
	g     *gateway.Gateway
	base  string
	admin http.Handler
}

func newAwayShop(t *testing.T, secret string, inner *memstore.Store) *awayShop {
	t.Helper()
	s := &awayShop{log: new(lockedBuffer), node: newNode(t)}
	s.store = storetest.NewFaulty(inner, func(string, int) storetest.Fault {
		if s.away.Load() {
			return storetest.LoseRequest
		}
		return 0
	})
	logger := slog.New(slog.NewTextHandler(s.log, nil))
	e := retrysafe.New(s.store, &retrysafe.Options{Secret: []byte(secret), Sweep: -1, Logger: logger})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	s.g, s.base = serveGateway(t, e, &gateway.Options{Upstreams: []string{s.node.URL}, Logger: logger})
	s.admin = gateway.Admin(gateway.NewLive(s.g), e, nil)
	return s
}

// used makes the store one that was used with a secret.
func used(t *testing.T, s *memstore.Store, secret string) {
	t.Helper()
	e := retrysafe.New(s, &retrysafe.Options{Secret: []byte(secret), Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
	assert.NoError(t, e.CheckSecret(t.Context()), "the first process")
	assert.NoError(t, e.Shutdown(t.Context()), "shutdown")
}

// eventually waits until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(end) {
			t.Fatal(what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// TestSecretAtTheStart: a gateway with the secret of the store serves, and one with another learns
// that before it serves.
func TestSecretAtTheStart(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	first := newAwayShop(t, oneSecret, store)
	assert.NoError(t, first.g.CheckSecret(t.Context()), "the first gateway")
	assert.NoError(t, newAwayShop(t, oneSecret, store).g.CheckSecret(t.Context()), "one with the same secret")
	for _, secret := range []string{otherSecret, ""} {
		assert.ErrorIs(t, newAwayShop(t, secret, store).g.CheckSecret(t.Context()), retrysafe.ErrSecretChanged, "one with another secret")
	}
	assert.Equal(t, told(t, first.base, "POST", "k", "x"), "201", "a request, which looks whether the store went back")
	before := first.store.Calls("lookup")
	for i := range 5 {
		assert.Equal(t, told(t, first.base, "POST", fmt.Sprint("k-", i), "x"), "201", "a request")
	}
	assert.Equal(t, first.store.Calls("lookup"), before, "looks for five requests")
}

// TestSecretWhileStoreIsAway: no guarded request is passed on until the secret is known to be the
// one of the store.
func TestSecretWhileStoreIsAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		secret string // of the store when it is back; empty: no process has used it
		passes bool
	}{"the first": {"", true}, "the same": {oneSecret, true}, "another": {otherSecret, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := memstore.New(nil)
			if c.secret != "" {
				used(t, store, c.secret)
			}
			s := newAwayShop(t, oneSecret, store)
			s.away.Store(true)
			assert.ErrorIs(t, s.g.CheckSecret(t.Context()), retrysafe.ErrUnavailable, "at the start")
			assert.Equal(t, told(t, s.base, "POST", "k", "x"), "503 store-unavailable 1", "while it is away")
			assert.Equal(t, told(t, s.base, "GET", "", ""), "201", "a request that is not guarded")
			effects := s.node.got.Load()
			s.away.Store(false)
			if c.passes {
				assert.Equal(t, told(t, s.base, "POST", "k", "x"), "201", "when it is back")
				return
			}
			for range 5 {
				assert.Equal(t, told(t, s.base, "POST", "k", "x"), "503 store-unavailable 1", "with another secret")
			}
			assert.Equal(t, told(t, s.base, "GET", "", ""), "201", "a request that is not guarded")
			assert.Equal(t, s.node.got.Load(), effects+1, "requests that were passed on")
			eventually(t, "/readyz does not say why", func() bool {
				status, text := ask(t, s.admin, "/readyz")
				return status == 503 && strings.Contains(text, "store: answers") && strings.Contains(text, "secret: is not the one")
			})
			assert.Equal(t, strings.Count(s.log.String(), "guarded requests cannot be served with this secret"), 1, "lines: %s", s.log)
			assert.True(t, !strings.Contains(s.log.String(), oneSecret), "the log has the secret: %s", s.log)

			desk, err := admin.NewRecords(store, &admin.RecordsOptions{Secret: []byte(oneSecret)})
			assert.NoError(t, err, "desk")
			_, err = desk.ReplaceSecret(t.Context(), "app")
			assert.NoError(t, err, "replace")
			eventually(t, "it does not serve with the secret that the store has now", func() bool { return told(t, s.base, "POST", "k", "x") == "201" })
			status, _ := ask(t, s.admin, "/readyz")
			assert.Equal(t, status, 200, "/readyz then")
		})
	}
}

// TestStatusNeedsTheSecret: with another secret a known key would be reported as absent.
func TestStatusNeedsTheSecret(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	used(t, store, otherSecret)
	s := newAwayShop(t, oneSecret, store)
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.base+gateway.StatusPath+"?method=POST&path=/orders", http.NoBody)
	assert.NoError(t, err, "request")
	r.Header = http.Header{"Idempotency-Key": {"k-of-at-least-22-characters"}, "Authorization": {"Bearer opaque"}}
	resp, err := http.DefaultClient.Do(r)
	assert.NoError(t, err, "status")
	_ = resp.Body.Close()
	assert.Equal(t, resp.StatusCode, 503, "status of a key")
}

// TestSecretAndOwnReady: a route's own Ready is asked too.
func TestSecretAndOwnReady(t *testing.T) {
	t.Parallel()
	n, ready := newNode(t), atomic.Bool{}
	o := &gateway.Options{Upstreams: []string{n.URL}}
	o.Guard.Ready = func(context.Context) error {
		if !ready.Load() {
			return retrysafe.ErrClosed
		}
		return nil
	}
	base := serve(t, newEngine(t, memstore.New(nil), retrysafe.Policy{}), o)
	assert.Equal(t, told(t, base, "POST", "k", "x"), "503 store-unavailable 1", "before")
	assert.Equal(t, n.got.Load(), int64(0), "requests that were passed on")
	ready.Store(true)
	assert.Equal(t, told(t, base, "POST", "k", "x"), "201", "after")
}
