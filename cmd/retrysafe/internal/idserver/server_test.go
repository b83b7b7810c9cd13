package idserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/idserver"
	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/idgen/memranges"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// world is a store and a source that can be unreachable, and count their calls.
type world struct {
	storeapi.Store
	*memranges.Ranges
	away  atomic.Bool
	takes atomic.Int64
}

var errAway = errors.New("no route to host")

func (w *world) Extend(ctx context.Context, r storeapi.ExtendRequest) error {
	if w.away.Load() {
		return errAway
	}
	return w.Store.Extend(ctx, r)
}

func (w *world) Acquire(ctx context.Context, r storeapi.AcquireRequest) (storeapi.Acquired, error) {
	if w.away.Load() {
		return storeapi.Acquired{}, errAway
	}
	return w.Store.Acquire(ctx, r)
}

func (w *world) Allocate(ctx context.Context, tag string, n int64) (first, count int64, err error) {
	w.takes.Add(1)
	if w.away.Load() {
		return 0, 0, errAway
	}
	return w.Ranges.Allocate(ctx, tag, n)
}

func newServer(tb testing.TB) (*idserver.Server, *world) {
	tb.Helper()
	w := &world{Store: memstore.New(nil), Ranges: memranges.New()}
	_, err := w.Create(tb.Context(), "order", 1, 100)
	assert.NoError(tb, err, "Create")
	layout := idgen.Fast()
	layout.Epoch = time.Now().AddDate(-1, 0, 0) // before the clock of a bubble
	s, err := idserver.New(tb.Context(), &idserver.Options{
		Store: w, Ranges: w, Log: slog.New(slog.DiscardHandler),
		Workers: &idgen.WorkersOptions{Max: 64, Unsafe: true, Layout: layout},
	})
	assert.NoError(tb, err, "New")
	return s, w
}

func get(t *testing.T, s *idserver.Server, path string) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return rec
}

// TestStoreAway: while the store is unreachable, ids last for a while, then errors say what to do.
// When the store is back, ids continue, with another worker number.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := newServer(t)
		first := s.Worker()
		for _, path := range []string{"/api/snowflake/get/x", "/api/segment/get/order", "/readyz"} {
			assert.Equal(t, get(t, s, path).Code, 200, "%s", path)
		}
		w.away.Store(true)
		time.Sleep(20 * time.Second)
		for _, path := range []string{"/api/snowflake/get/x", "/api/segment/get/order", "/readyz"} {
			assert.Equal(t, get(t, s, path).Code, 200, "%s, the store away for 20 s", path)
		}
		time.Sleep(time.Minute)
		get(t, s, "/api/segment/get/order?count=90") // use up what is left
		for _, path := range []string{"/api/snowflake/get/x", "/api/segment/get/order?count=200"} {
			rec := get(t, s, path)
			assert.Equal(t, rec.Code, 503, "%s, the store away for long", path)
			assert.Equal(t, rec.Header().Get("Retry-After"), "1", "%s", path)
			assert.Contains(t, rec.Body.String(), "No id was made; try again", "%s", path)
		}
		assert.Equal(t, get(t, s, "/readyz").Code, 503, "ready")
		assert.Equal(t, get(t, s, "/healthz").Code, 200, "alive")
		w.away.Store(false)
		time.Sleep(time.Minute)
		for _, path := range []string{"/api/snowflake/get/x", "/api/segment/get/order", "/readyz"} {
			assert.Equal(t, get(t, s, path).Code, 200, "%s, the store back", path)
		}
		assert.NotEqual(t, s.Worker(), first, "the number")
		assert.Contains(t, get(t, s, "/metrics").Body.String(), "retrysafe_ids_workers_lost_total 1", "metrics")
		s.Drain()
		assert.Equal(t, get(t, s, "/readyz").Code, 503, "while it is stopped")
		assert.NoError(t, s.Close(t.Context()), "Close")
		assert.Equal(t, get(t, s, "/api/segment/get/order").Code, 503, "behind Close")
	})
}

// TestUnknownTags: clients that ask for missing tags cost the source little and the server nothing,
// also while the source is unreachable.
func TestUnknownTags(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := newServer(t)
		defer s.Close(t.Context())
		for range 100 {
			assert.Equal(t, get(t, s, "/api/segment/get/none").Code, 404, "a tag that is not there")
		}
		assert.Equal(t, w.takes.Load(), int64(1), "calls of the source")
		for i := range 5000 {
			assert.Equal(t, get(t, s, fmt.Sprint("/api/segment/get/none", i)).Code, 404, "many of them")
		}
		w.away.Store(true)
		for i := range 100 {
			assert.Equal(t, get(t, s, fmt.Sprint("/api/segment/get/away", i)).Code, 503, "the source away")
		}
		before := w.takes.Load()
		time.Sleep(10 * time.Second)
		assert.Equal(t, w.takes.Load(), before, "calls of the source that nobody waits for")
		w.away.Store(false)
		_, err := w.Create(t.Context(), "none", 7, 10)
		assert.NoError(t, err, "Create")
		assert.Equal(t, get(t, s, "/api/segment/get/none").Body.String(), "7", "the tag, once it was made")
	})
}

// FuzzRequest: to any request the answer is ids or an error in words.
func FuzzRequest(f *testing.F) {
	s, _ := newServer(f)
	f.Cleanup(func() { _ = s.Close(context.Background()) })
	for _, seed := range []string{"order", "order?count=3", "a%00b", "%ff", "..", "a/b", "order?count=99999999999999999999", "order?count=1&count=2", "?", "order?;"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		u, err := url.ParseRequestURI("/api/segment/get/" + rest)
		if err != nil {
			return
		}
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, &http.Request{Method: http.MethodGet, URL: u, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Host: "a"})
		body := rec.Body.String()
		switch {
		case rec.Code == http.StatusOK && strings.HasPrefix(body, "["):
			var ids []idgen.ID
			assert.NoError(t, json.Unmarshal([]byte(body), &ids), "%q", rest)
			assert.True(t, len(ids) > 0 && len(ids) <= idserver.MaxCount, "%q: %d ids", rest, len(ids))
		case rec.Code == http.StatusOK:
			_, err := idgen.Parse(body)
			assert.NoError(t, err, "%q", rest)
		default:
			assert.True(t, rec.Code < 500, "%q: %d %s", rest, rec.Code, body)
		}
	})
}
