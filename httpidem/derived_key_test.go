package httpidem_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestMadeOptionsAreChecked tests modes without the options that they need, and options without
// their mode.
func TestMadeOptionsAreChecked(t *testing.T) {
	t.Parallel()
	name := func(*http.Request) string { return "vote" }
	for what, tt := range map[string]struct {
		o    httpidem.Options
		want string
	}{
		"no fields":           {httpidem.Options{Key: httpidem.Fields, Request: httpidem.RequestOptions{Operation: name}}, "names none"},
		"no operation":        {httpidem.Options{Key: httpidem.Fields, Request: httpidem.RequestOptions{Fields: []string{"poll"}}}, "many spellings"},
		"an array":            {httpidem.Options{Key: httpidem.Fields, Request: httpidem.RequestOptions{Operation: name, Fields: []string{"$.a[*]"}}}, "no field"},
		"no header":           {httpidem.Options{Key: httpidem.Fields, Request: httpidem.RequestOptions{Operation: name, Fields: []string{"header:"}}}, "names no header"},
		"no parameter":        {httpidem.Options{Key: httpidem.Fields, Request: httpidem.RequestOptions{Operation: name, Fields: []string{"query:"}}}, "names no parameter"},
		"only and fields":     {httpidem.Options{Key: httpidem.Fields, Request: httpidem.RequestOptions{Operation: name, Fields: []string{"a"}, Rule: fingerprint.Rule{Only: []string{"a"}}}}, "Params"},
		"fields without mode": {httpidem.Options{Request: httpidem.RequestOptions{Fields: []string{"poll"}}}, "Key is not Fields"},
		"a rule without mode": {httpidem.Options{Request: httpidem.RequestOptions{Rule: fingerprint.Rule{Ignore: []string{"ts"}}}}, "leave Rule out"},
		"a rule that is none": {httpidem.Options{Key: httpidem.Params, Request: httpidem.RequestOptions{Rule: fingerprint.Rule{Ignore: []string{"$.a..b"}}}}, "cannot be read"},
		"a form's key, off":   {httpidem.Options{Key: httpidem.Off, KeySource: httpidem.KeySource{Form: true}}, "KeySource.Form"},
		"a form's key, made":  {httpidem.Options{Key: httpidem.Params, KeySource: httpidem.KeySource{Form: true}}, "KeySource.Form"},
		"an age in a body":    {httpidem.Options{Limit: httpidem.LimitOptions{Age: &httpidem.Age{Field: "ts", Max: time.Minute}}}, "take the time from a header"},
		"an age of nothing":   {httpidem.Options{Key: httpidem.Off, Limit: httpidem.LimitOptions{Age: &httpidem.Age{Field: "header:Date", Max: time.Minute}}}, "nothing is guarded"},
		"a typing error":      {httpidem.Options{Key: httpidem.Fields, Request: httpidem.RequestOptions{Operation: name, Fields: []string{"headers:X-Poll"}}}, "header or query"},
		"no age":              {httpidem.Options{Limit: httpidem.LimitOptions{Age: &httpidem.Age{Field: "ts"}}}, "5s or more"},
		"missing elsewhere":   {httpidem.Options{Request: httpidem.RequestOptions{Missing: httpidem.MissingPass}}, "Missing is for the key Fields"},
		"missing of callers":  {httpidem.Options{Key: httpidem.Fields, Request: httpidem.RequestOptions{Operation: name, Fields: []string{"a"}, Missing: httpidem.MissingPass}}, "could leave a field out"},
		"missing what":        {httpidem.Options{Request: httpidem.RequestOptions{Missing: 9}}, "MissingRefuse or MissingPass"},
		"no time":             {httpidem.Options{Limit: httpidem.LimitOptions{Age: &httpidem.Age{Max: time.Minute}}}, "no field"},
	} {
		tt.o.Tenant = httpidem.Global
		err := tt.o.Validate(retrysafe.Policy{})
		assert.True(t, err != nil && strings.Contains(err.Error(), tt.want), "%s: %v", what, err)
	}
	good := httpidem.Options{Tenant: httpidem.Global, Key: httpidem.Params}
	assert.NoError(t, good.Validate(retrysafe.Policy{Lease: time.Hour}), "a long lease of the engine")
	_, err := httpidem.ParseKey([]string{"\x01AAAA"})
	assert.True(t, err != nil, "nobody can send what a made key begins with")
}

// TestParamsPolicy tests that keys of the mode Params count for seconds, and that a lease is no
// longer than that, unless the options say so.
func TestParamsPolicy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		own                         retrysafe.Policy
		lease, maxRun, retention    time.Duration
		engineLease, engineRetained time.Duration
	}{
		{lease: httpidem.DefaultWindow, maxRun: 5 * time.Minute, retention: httpidem.DefaultWindow},
		{own: retrysafe.Policy{Retention: 3 * time.Second}, lease: 3 * time.Second, maxRun: 5 * time.Minute, retention: 3 * time.Second},
		{own: retrysafe.Policy{Retention: time.Hour}, lease: 30 * time.Second, maxRun: 5 * time.Minute, retention: time.Hour},
		{own: retrysafe.Policy{Lease: time.Second}, lease: time.Second, maxRun: 10 * time.Second, retention: httpidem.DefaultWindow},
		{engineLease: 2 * time.Second, engineRetained: time.Hour, lease: 2 * time.Second, maxRun: 20 * time.Second, retention: httpidem.DefaultWindow},
	} {
		e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Policy: retrysafe.Policy{Lease: tt.engineLease, Retention: tt.engineRetained}, Sweep: -1})
		var got retrysafe.Policy
		h := httpidem.New(e, &httpidem.Options{Tenant: httpidem.Global, Key: httpidem.Params, Policy: tt.own}).Handler(
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				a, _ := retrysafe.AttemptFrom(r.Context())
				got = a.Policy()
			}))
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil))
		assert.Equal(t, [3]time.Duration{got.Lease, got.MaxRun, got.Retention}, [3]time.Duration{tt.lease, tt.maxRun, tt.retention}, "%+v", tt.own)
	}
}

// TestKeysOverUnreadableRequests tests that a key that was used with one request is refused with
// another one, also if the rule cannot parse one of them, or both.
func TestKeysOverUnreadableRequests(t *testing.T) {
	t.Parallel()
	bodies := []string{`{"amount":1}`, `not json`, `{"amount":1,"amount":1}`, `{"amount":1`, ``}
	for i, first := range bodies {
		for j, second := range bodies {
			e := retrysafe.New(memstore.New(nil), nil)
			runs := 0
			h := httpidem.New(e, &httpidem.Options{Tenant: httpidem.Global, Key: httpidem.Params}).Handler(http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) { runs++; w.WriteHeader(http.StatusCreated) },
			))
			var told []int
			for _, body := range []string{first, second} {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/orders", strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Idempotency-Key", `"the-key-of-an-order"`)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				told = append(told, w.Code)
			}
			want := "[201 422] 1"
			if i == j {
				want = "[201 201] 1"
			}
			assert.Equal(t, fmt.Sprint(told, " ", runs), want, "%q and then %q", first, second)
			assert.NoError(t, e.Shutdown(t.Context()), "Shutdown")
		}
	}
}

// TestMadeKeysInside tests that a guard inside a guard, each with its own key, runs the work once
// and does not wait.
func TestMadeKeysInside(t *testing.T) {
	t.Parallel()
	m := newMiddleware(t, &httpidem.Options{Key: httpidem.Params})
	runs := 0
	h := m.Handler(m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		runs++
		assert.Equal(t, r.Header.Get("Idempotency-Key") != "", true, "the key is there")
	})))
	for range 2 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/orders", strings.NewReader("x")))
		assert.Equal(t, w.Code, 200, "status")
	}
	assert.Equal(t, runs, 1, "runs")
}

// TestRuleChanges tests that after a change of the rule, the duplicate of an earlier request gets
// its answer, not a mismatch.
func TestRuleChanges(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	send := func(ignore, body string) string {
		m := httpidem.New(retrysafe.New(store, nil), &httpidem.Options{
			Tenant:  httpidem.Global,
			Request: httpidem.RequestOptions{Operation: func(*http.Request) string { return "vote" }, Fields: []string{"poll"}, Rule: fingerprint.Rule{Ignore: []string{ignore}}},
			Key:     httpidem.Fields,
		})
		r := httptest.NewRequest("POST", "/votes", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
		p, _ := httpidem.ProblemFrom(w.Result())
		if p != nil {
			return p.Code
		}
		return w.Header().Get("Idempotency-Replayed")
	}
	assert.Equal(t, send("ts", `{"poll":1,"for":"tea","ts":1}`), "", "the first")
	assert.Equal(t, send("ts", `{"poll":1,"for":"tea","ts":2}`), "true", "its repeat")
	assert.Equal(t, send("ts", `{"poll":1,"for":"coffee","ts":2}`), "payload-mismatch", "another")
	assert.Equal(t, send("time", `{"poll":1,"for":"tea","ts":3}`), "true", "a repeat under another rule")
}

// TestStatusOfMadeKeys tests that no caller can ask about a key that it does not know.
func TestStatusOfMadeKeys(t *testing.T) {
	t.Parallel()
	for _, o := range []*httpidem.Options{
		{Key: httpidem.Params},
		{Key: httpidem.Fields, Request: httpidem.RequestOptions{Fields: []string{"a"}, Operation: func(*http.Request) string { return "x" }}},
	} {
		w := httptest.NewRecorder()
		newMiddleware(t, o).Status().ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), "GET", "/s?method=POST&path=/", nil))
		assert.Equal(t, w.Code, 400, "status")
	}
}

// TestMissingFields tests what requests get that lack a field of the key: each copy passes, or is
// refused. What can be read in two ways is refused in any case.
func TestMissingFields(t *testing.T) {
	t.Parallel()
	for _, missing := range []httpidem.Missing{0, httpidem.MissingRefuse, httpidem.MissingPass} {
		send, _ := counted(newMiddleware(t, &httpidem.Options{
			Key:     httpidem.Fields,
			Request: httpidem.RequestOptions{Fields: []string{"/event_id", "header:X-Topic"}, AnyPayload: true, Missing: missing, Operation: func(*http.Request) string { return "events" }},
		}))
		twice := func(media, body string, fields ...string) string {
			return send(posted(media, body, fields...)) + ", " + send(posted(media, body, fields...))
		}
		assert.Equal(t, twice(jsonType, `{"event_id":"Ev1"}`, "X-Topic", "orders"), "order 1, order 1", "an event")
		for name, got := range map[string]string{
			"twice":      twice(jsonType, `{"event_id":"a","event_id":"b"}`, "X-Topic", "orders"),
			"in 2 ways":  twice(jsonType, `{"Event_Id":"a"}`),
			"no JSON":    twice(jsonType, `{"event_id":"a"`, "X-Topic", "orders"),
			"two fields": twice(jsonType, `{}`, "X-Topic", "orders", "X_Topic", "payments"),
			"no kind":    twice("text/plain", "hello", "X-Topic", "orders"),
		} {
			assert.Equal(t, got, "key-not-made, key-not-made", "%s, %d", name, missing)
		}
		n := 1
		for name, got := range map[string]func() string{
			"a handshake": func() string {
				return twice(jsonType, `{"type":"url_verification","challenge":"c"}`, "X-Topic", "orders")
			},
			"no header":     func() string { return twice(jsonType, `{"event_id":"Ev1"}`) },
			"an empty id":   func() string { return twice(jsonType, `{"event_id":""}`, "X-Topic", "orders") },
			"null":          func() string { return twice(jsonType, `{"event_id":null}`, "X-Topic", "orders") },
			"an empty body": func() string { return twice("", "") },
		} {
			want := "key-not-made, key-not-made"
			if missing == httpidem.MissingPass {
				want = fmt.Sprintf("order %d, order %d", n+1, n+2)
				n += 2
			}
			assert.Equal(t, got(), want, "%s, %d", name, missing)
		}
	}
}

// TestInProgressAnswer tests that a duplicate of a running request gets the fixed answer, that it
// does so after the wait if there is one, and that nothing else does.
func TestInProgressAnswer(t *testing.T) {
	t.Parallel()
	began, end := make(chan struct{}), make(chan struct{})
	m := newMiddleware(t, &httpidem.Options{Answer: httpidem.AnswerOptions{InProgress: &httpidem.StaticAnswer{Status: 202, ContentType: "text/plain", Body: []byte("taken")}}})
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-end
		w.WriteHeader(http.StatusCreated)
	}))
	send := func(body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, keyed(body))
		return w
	}
	first := make(chan int)
	go func() { first <- send("x").Code }()
	<-began
	again := send("x")
	assert.Equal(t, fmt.Sprint(again.Code, again.Body.String(), again.Header().Get("Content-Type"), again.Header()["Idempotency-Replayed"]), "202takentext/plain[]", "a duplicate")
	assert.Equal(t, send("y").Code, 422, "another request")
	close(end)
	assert.Equal(t, <-first, 201, "the first")
	assert.Equal(t, send("x").Code, 201, "a duplicate afterwards")
}
