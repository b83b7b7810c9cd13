package httpidemtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// breakableStore is a store whose calls fail while a test wants them to.
type breakableStore struct {
	storeapi.Store
	down     atomic.Bool  // every call
	complete atomic.Value // an error that Complete returns
}

var errDown = errors.New("connection refused by /var/lib/secret-host:5432")

func (b *breakableStore) Acquire(ctx context.Context, r storeapi.AcquireRequest) (storeapi.Acquired, error) {
	if b.down.Load() {
		return storeapi.Acquired{}, errDown
	}
	return b.Store.Acquire(ctx, r)
}

func (b *breakableStore) Lookup(ctx context.Context, k storeapi.StoreKey) (retrysafe.Record, error) {
	if b.down.Load() {
		return retrysafe.Record{}, errDown
	}
	return b.Store.Lookup(ctx, k)
}

func (b *breakableStore) Charge(ctx context.Context, r storeapi.ChargeRequest) (storeapi.Charged, error) {
	s, ok := b.Store.(storeapi.Limiter)
	switch {
	case b.down.Load():
		return storeapi.Charged{}, errDown
	case !ok:
		return storeapi.Charged{}, errors.ErrUnsupported
	}
	return s.Charge(ctx, r)
}

func (b *breakableStore) Complete(ctx context.Context, r storeapi.CompleteRequest) (retrysafe.Record, error) {
	if err, ok := b.complete.Load().(error); ok {
		return retrysafe.Record{}, err
	}
	return b.Store.Complete(ctx, r)
}

// testStoreDown tests H13: fail closed, and recover without help.
func testStoreDown(t *testing.T, open Open) {
	s := &breakableStore{Store: memstore.New(nil)}
	s.down.Store(true)
	wd := newWorld(t, open, Setup{Store: s}, nil)
	r := wd.send(keyedCall("k", "x"))
	wd.checkProblem(r, 503, "store-unavailable", true)
	assert.True(t, !strings.Contains(r.body, "secret-host"), "the cause is not for clients: %s", r.body)
	wd.checkStarts(0, "while the store is away")
	wd.send(call{body: "x"})
	wd.checkStarts(1, "without a key: that needs no store")
	s.down.Store(false)
	assert.Equal(t, wd.send(keyedCall("k", "x")).status, 201, "when it is back")
}

// testProblems tests H14; other tests check the codes.
func testProblems(t *testing.T, open Open) {
	t.Run("outer fields stay", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{Guard: httpidem.Options{Key: httpidem.Required, Docs: "https://docs.example/"}}, nil)
		r := wd.send(call{})
		assert.Contains(t, r.header.Get("Link"), "<https://docs.example/key-missing.md>", "Link")
		assert.Contains(t, r.body, `"type":"https://docs.example/key-missing.md"`, "type")
		assert.Contains(t, r.body, `"status":400`, "status")
	})
	t.Run("answers of one's own", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{Guard: httpidem.Options{
			Key: httpidem.Required,
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
				var p *httpidem.Problem
				if !errors.As(err, &p) {
					http.Error(w, "no problem", 500)
					return
				}
				http.Error(w, "own "+p.Code, p.Status)
			},
		}}, nil)
		r := wd.send(call{})
		assert.Equal(t, fmt.Sprint(r.status, r.body), "400own key-missing\n", "answer")
	})
}

// testSecrets tests H16: no answer of the implementation itself contains keys, bodies, queries or
// causes.
func testSecrets(t *testing.T, open Open) {
	wd := newWorld(t, open, Setup{Guard: httpidem.Options{Limit: httpidem.LimitOptions{Body: 100}}}, func(_ http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "panic") {
			panic("panic-secret")
		}
	})
	var all strings.Builder
	send := func(path, key, body string) {
		c := keyedCall(key, body)
		c.path = path + "?q=query-secret"
		r, _ := wd.trySend(c)
		all.WriteString(r.body + fmt.Sprint(r.header))
	}
	send("/a", "key-secret", "body-secret")
	send("/a", "key-secret", "another body-secret")
	send("/a", "key-secret,", "body-secret")
	send("/a", "key-secret-2", strings.Repeat("body-secret", 100))
	send("/panic", "key-secret", "body-secret")
	send("/panic", "key-secret", "body-secret")
	assert.True(t, !strings.Contains(all.String(), "secret"), "answers: %s", all.String())
	assert.True(t, strings.Contains(all.String(), "payload-mismatch") && strings.Contains(all.String(), "key-malformed"), "the answers came")
}

// testOrder tests H17: an answer is sent after it is stored, and marked if the store has not
// confirmed it.
func testOrder(t *testing.T, open Open) {
	stream := func(w http.ResponseWriter, _ *http.Request) {
		rc := http.NewResponseController(w)
		_, _ = io.WriteString(w, "first part,")
		_ = rc.Flush()
		_, _ = io.WriteString(w, "last part")
		_ = rc.Flush() // everything but the last byte is sent
	}
	buffered := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Order", "1")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "whole")
	}
	failing := func(t *testing.T, err error, o origin) *world {
		t.Helper()
		s := &breakableStore{Store: memstore.New(nil)}
		s.complete.Store(err)
		return newWorld(t, open, Setup{Store: s}, o)
	}
	t.Run("unconfirmed", func(t *testing.T) {
		t.Parallel()
		wd := failing(t, errDown, buffered)
		r := wd.send(keyedCall("k", "x"))
		assert.Equal(t, fmt.Sprint(r.status, r.body), "201whole", "the answer")
		assert.Equal(t, r.header.Get("Idempotency-Stored"), "unconfirmed", "its mark")
	})
	t.Run("unconfirmed, streamed", func(t *testing.T) {
		t.Parallel()
		wd := failing(t, errDown, func(w http.ResponseWriter, r *http.Request) {
			// a gateway passes this on as it comes
			w.Header().Set("Content-Type", "text/event-stream")
			stream(w, r)
		})
		r := wd.send(keyedCall("k", "x"))
		assert.Equal(t, r.body, "first part,last part", "body")
		assert.Equal(t, r.trailer.Get("Idempotency-Stored"), "unconfirmed", "its mark, as a trailer")
	})
	t.Run("lease lost", func(t *testing.T) {
		t.Parallel()
		wd := failing(t, retrysafe.ErrLeaseLost, buffered)
		r := wd.send(keyedCall("k", "x"))
		wd.checkProblem(r, 409, "lease-lost", true)
		assert.Equal(t, r.header.Get("Retry-After"), "1", "Retry-After")
		assert.Equal(t, r.header.Get("X-Order"), "", "nothing of the handler's answer is left")
	})
	t.Run("lease lost, streamed", func(t *testing.T) {
		t.Parallel()
		wd := failing(t, retrysafe.ErrLeaseLost, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			stream(w, r)
		})
		r, err := wd.trySend(keyedCall("k", "x"))
		assert.True(t, err != nil, "the client must not take it for whole: %q", r.body)
		assert.True(t, !strings.HasSuffix(r.body, "last part"), "its last byte was held back: %q", r.body)
	})
	t.Run("confirmed answers are not marked", func(t *testing.T) {
		t.Parallel()
		for _, o := range []origin{buffered, stream} {
			wd := newWorld(t, open, Setup{}, o)
			r := wd.send(keyedCall("k", "x"))
			assert.Equal(t, r.header.Get("Idempotency-Stored")+r.trailer.Get("Idempotency-Stored"), "", "mark")
		}
	})
}
