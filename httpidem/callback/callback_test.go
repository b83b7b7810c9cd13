package callback_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/callback"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/testclient"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// shop receives notifications; a test can change its answers.
type shop struct {
	http.Handler
	runs   atomic.Int64
	status atomic.Int64
	begun  chan struct{} // if set, the handler signals that it runs,
	stay   chan struct{} // and waits for this
}

func newShop(t *testing.T, change func(*callback.Options)) *shop {
	t.Helper()
	o := &callback.Options{
		Provider: "pay", ID: "/id", Verify: callback.Unverified, Policy: retrysafe.Policy{OnDoubt: retrysafe.Refuse},
		Succeed: httpidem.StaticAnswer{ContentType: "text/plain", Body: []byte("success")},
	}
	if change != nil {
		change(o)
	}
	s := &shop{}
	s.status.Store(200)
	s.Handler = callback.New(retrysafe.New(memstore.New(nil), nil), o).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.runs.Add(1)
		if s.begun != nil {
			close(s.begun)
			<-s.stay
		}
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err, "body")
		w.WriteHeader(int(s.status.Load()))
		_, _ = w.Write([]byte("first " + string(body)))
	}))
	return s
}

func (s *shop) notify(body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), "POST", "/notify", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func code(w *httptest.ResponseRecorder) string {
	p, ok := httpidem.ProblemFrom(w.Result())
	if !ok {
		return ""
	}
	return p.Code
}

// TestOnce tests that one of many notifications of an event runs, and that its duplicates get the
// answer with which the provider stops.
func TestOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t, func(o *callback.Options) { o.Policy.Wait = 10 * time.Second })
	var fresh, repeats atomic.Int64
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			switch w := s.notify(`{"id":"evt_1"}`); {
			case w.Code == 200 && w.Body.String() == `first {"id":"evt_1"}`:
				fresh.Add(1)
			case w.Code == 200 && w.Body.String() == "success" && w.Header().Get("Content-Type") == "text/plain":
				repeats.Add(1)
			}
		})
	}
	all.Wait()
	assert.Equal(t, [3]int64{s.runs.Load(), fresh.Load(), repeats.Load()}, [3]int64{1, 1, 19}, "runs, first answers, repeats")
	assert.Equal(t, s.notify(`{"id":"evt_1","pending":0,"attempt":2}`).Body.String(), "success", "a provider may send other bytes the second time")
	assert.Equal(t, s.notify(`{"id":"evt_2"}`).Body.String(), `first {"id":"evt_2"}`, "another event")
	assert.Equal(t, s.runs.Load(), int64(2), "runs")
}

// TestInProgress tests that the provider is asked to retry while the first notification runs.
func TestInProgress(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	s.begun, s.stay = make(chan struct{}), make(chan struct{})
	done := make(chan struct{})
	go func() { defer close(done); s.notify(`{"id":1}`) }()
	<-s.begun
	w := s.notify(`{"id":"1"}`)
	assert.Equal(t, code(w), "in-progress", "code")
	assert.True(t, w.Header().Get("Retry-After") != "", "when to come again")
	close(s.stay)
	<-done
	assert.Equal(t, s.notify(`{"id":1}`).Body.String(), "success", "afterwards")
	assert.Equal(t, s.runs.Load(), int64(1), "runs")
}

// TestFailures tests what a failed handler means for its event, under each policy.
func TestFailures(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		on     retrysafe.OnDoubt
		status int64
		again  string // the answer to the provider's next try
		runs   int64
	}{
		{retrysafe.Reexecute, 500, `first {"id":1}`, 2},
		// the provider retries, and the operator sees the doubt
		{retrysafe.Refuse, 500, "outcome-unknown", 1},
		{retrysafe.Refuse, 503, "outcome-unknown", 1},
		{retrysafe.Refuse, 403, `first {"id":1}`, 2},
		{retrysafe.Reexecute, 422, `first {"id":1}`, 1},
		{retrysafe.Refuse, 422, `first {"id":1}`, 1},
		{retrysafe.Refuse, 429, `first {"id":1}`, 2}, // not handled
		{retrysafe.Refuse, 204, "success", 1},
		{retrysafe.Refuse, 302, "success", 1},
	} {
		s := newShop(t, func(o *callback.Options) { o.Policy.OnDoubt = tt.on })
		s.status.Store(tt.status)
		s.notify(`{"id":1}`)
		before := s.status.Load()
		if tt.runs == 2 {
			s.status.Store(200)
		}
		w := s.notify(`{"id":1}`)
		if p := code(w); p != "" {
			assert.Equal(t, p, tt.again, "%v after %d", tt.on, before)
			continue
		}
		assert.Equal(t, w.Body.String(), tt.again, "%v after %d", tt.on, before)
		assert.Equal(t, s.runs.Load(), tt.runs, "%v after %d: runs", tt.on, before)
		if tt.runs == 1 && tt.status >= 400 {
			assert.Equal(t, int64(w.Code), tt.status, "%v: the kept status", tt.on)
		}
	}
}

// TestVerifiedFirst tests that a caller that cannot sign uses up no id, and learns nothing.
func TestVerifiedFirst(t *testing.T) {
	t.Parallel()
	var told atomic.Int64
	secret := errors.New("the reason is for logs")
	s := newShop(t, func(o *callback.Options) {
		o.MaxBody = 100
		o.Verify = func(r *http.Request, body []byte) error {
			if r.Header.Get("X-Sign") != "good" || !strings.Contains(string(body), "id") {
				return secret
			}
			return nil
		}
		o.OnRefused = func(_ *http.Request, err error) {
			assert.True(t, errors.Is(err, secret), "the reason")
			told.Add(1)
		}
	})
	w := s.notify(`{"id":7}`, "X-Sign", "bad")
	assert.Equal(t, w.Code, 401, "status")
	assert.Equal(t, code(w), "signature-refused", "code")
	assert.True(t, !strings.Contains(w.Body.String(), "reason"), "the reason is not told")
	assert.Equal(t, s.notify(`{"id":7}`, "X-Sign", "good").Body.String(), `first {"id":7}`, "the true one afterwards")
	assert.Equal(t, code(s.notify(`{"id":7}`, "X-Sign", "bad")), "signature-refused", "what was done is not told to others")
	assert.Equal(t, [2]int64{told.Load(), s.runs.Load()}, [2]int64{2, 1}, "refused and runs")
	for body, want := range map[string]string{`{"Id":7,"id":8}`: "key-not-made", `{"data":{"id":7}}`: "key-not-made", `id`: "key-not-made", `{"id":"` + strings.Repeat("x", 100) + `"}`: "body-too-large"} {
		assert.Equal(t, code(s.notify(body, "X-Sign", "good")), want, "%.20s", body)
	}
	r := httptest.NewRequest("GET", "/notify", nil)
	w = httptest.NewRecorder()
	s.ServeHTTP(w, r)
	assert.Equal(t, w.Code, 405, "GET")
	assert.Equal(t, s.runs.Load(), int64(1), "runs")
}

// TestProvidersApart tests that one id of two providers is two events.
func TestProvidersApart(t *testing.T) {
	t.Parallel()
	e := retrysafe.New(memstore.New(nil), nil)
	runs := 0
	for _, provider := range []string{"one", "two", "one"} {
		h := callback.New(e, &callback.Options{
			Provider: provider, ID: "header:X-Event", HeaderCovered: true, Verify: callback.Unverified, Policy: retrysafe.Policy{OnDoubt: retrysafe.Reexecute},
		}).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runs++ }))
		for _, path := range []string{"/a", "/%61"} {
			r := httptest.NewRequest("POST", path, strings.NewReader("anything"))
			r.Header.Set("X-Event", "1")
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
	}
	assert.Equal(t, runs, 2, "runs")
}

// TestBody tests that the bytes are the event if no signed place has an id.
func TestBody(t *testing.T) {
	t.Parallel()
	s := newShop(t, func(o *callback.Options) { o.ID = callback.Body })
	for i, tt := range []struct {
		body string
		runs int64
	}{{"a", 1}, {"a", 1}, {"b", 2}, {"", 3}, {"", 3}} {
		s.notify(tt.body, "Retrysafe-Body-Sha256", "of the sender's own", "X-Id", "any")
		assert.Equal(t, s.runs.Load(), tt.runs, "runs after notification %d", i)
	}
}

// TestOutcomes tests that the Idempotency-Outcome of a handler takes precedence.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for outcome, runs := range map[string]int{"executed": 1, "not-executed": 2} {
		n := 0
		h := callback.New(retrysafe.New(memstore.New(nil), nil), &callback.Options{
			Provider: "pay", ID: "/id", Verify: callback.Unverified, Policy: retrysafe.Policy{OnDoubt: retrysafe.Refuse},
		}).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			n++
			w.Header().Set("Idempotency-Outcome", outcome)
			w.WriteHeader(http.StatusInternalServerError)
		}))
		for range 2 {
			r := httptest.NewRequest("POST", "/", strings.NewReader(`{"id":1}`))
			r.Header.Set("Content-Type", "application/json")
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
		assert.Equal(t, n, runs, "%s: runs", outcome)
	}
}

// TestSlowBody tests that a notification that arrives too slowly is ended, and runs nothing.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	s := newShop(t, func(o *callback.Options) { o.BodyTime = 50 * time.Millisecond })
	server := httptest.NewServer(s)
	defer server.Close()
	body, end := io.Pipe()
	defer end.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
	assert.NoError(t, err, "request")
	r.ContentLength = 10
	resp, err := testclient.HTTP.Transport.RoundTrip(r)
	if err == nil {
		assert.Equal(t, resp.StatusCode, 400, "status")
		_ = resp.Body.Close()
	}
	assert.Equal(t, s.runs.Load(), int64(0), "runs")
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*callback.Options)
		want   string
	}{
		"no provider":      {func(o *callback.Options) { o.Provider = "" }, "Provider is not set"},
		"no id":            {func(o *callback.Options) { o.ID = "" }, "no field"},
		"an id nobody set": {func(o *callback.Options) { o.ID = "query:id" }, "do not cover the query"},
		"a bare header":    {func(o *callback.Options) { o.ID = "header:X-Event-Id" }, "HeaderCovered"},
		"a negative time":  {func(o *callback.Options) { o.BodyTime = -1 }, "BodyTime"},
		"no verifier":      {func(o *callback.Options) { o.Verify = nil }, "Unverified"},
		"no policy":        {func(o *callback.Options) { o.Policy.OnDoubt = 0 }, "OnDoubt is not set"},
		"a bad policy":     {func(o *callback.Options) { o.Policy.Lease = 1 }, "Lease"},
		"no success":       {func(o *callback.Options) { o.Succeed.Status = 500 }, "200 to 299"},
	} {
		o := &callback.Options{Provider: "pay", ID: "/id", Verify: callback.Unverified, Policy: retrysafe.Policy{OnDoubt: retrysafe.Refuse}}
		assert.NoError(t, o.Validate(retrysafe.Policy{}), "without the change")
		tt.change(o)
		err := o.Validate(retrysafe.Policy{})
		assert.True(t, err != nil && strings.Contains(err.Error(), tt.want), "%s: %v", name, err)
		func() {
			defer func() { assert.True(t, recover() != nil, "%s: New panics", name) }()
			callback.New(retrysafe.New(memstore.New(nil), nil), o)
		}()
	}
}

// TestMissingID tests that an event without an id is refused, or handled each time, as the options
// say, and that its signature is verified in both cases.
func TestMissingID(t *testing.T) {
	t.Parallel()
	for _, missing := range []httpidem.Missing{0, httpidem.MissingPass} {
		s := newShop(t, func(o *callback.Options) {
			o.Missing = missing
			o.Verify = func(r *http.Request, _ []byte) error {
				if r.Header.Get("X-Sign") == "" {
					return errors.New("no signature")
				}
				return nil
			}
		})
		const handshake = `{"type":"url_verification","challenge":"c"}`
		want, runs := "key-not-made", int64(0)
		if missing == httpidem.MissingPass {
			want, runs = "", 2
		}
		for range 2 {
			assert.Equal(t, code(s.notify(handshake, "X-Sign", "1")), want, "missing %d", missing)
			assert.Equal(t, code(s.notify(handshake)), "signature-refused", "missing %d: not signed", missing)
		}
		assert.Equal(t, s.runs.Load(), runs, "runs")
	}
}

// TestInProgressAnswer tests what a duplicate gets while the first delivery is being handled.
func TestInProgressAnswer(t *testing.T) {
	t.Parallel()
	s := newShop(t, func(o *callback.Options) { o.InProgress = &httpidem.StaticAnswer{Status: http.StatusAccepted} })
	s.begun, s.stay = make(chan struct{}), make(chan struct{})
	first := make(chan int)
	go func() { first <- s.notify(`{"id":"evt_1"}`).Code }()
	<-s.begun
	assert.Equal(t, s.notify(`{"id":"evt_1"}`).Code, 202, "a duplicate")
	close(s.stay)
	assert.Equal(t, <-first, 200, "the first")
	assert.Equal(t, s.runs.Load(), int64(1), "runs")
}
