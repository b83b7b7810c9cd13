package httpidem_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// counted counts the runs of a handler inside m, and returns what a request gets: its status, or
// the code of a problem.
func counted(m *httpidem.Middleware) (send func(*http.Request) string, runs *int) {
	runs = new(int)
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		*runs++
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "order %d", *runs)
	}))
	return func(r *http.Request) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if p, _ := httpidem.ProblemFrom(w.Result()); p != nil {
			return p.Code
		}
		return w.Body.String()
	}, runs
}

// posted returns a request with a body; of fields, each two are a name and a value.
func posted(media, body string, fields ...string) *http.Request {
	r := httptest.NewRequest("POST", "/payments", strings.NewReader(body))
	if media != "" {
		r.Header.Set("Content-Type", media)
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	return r
}

const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded"
)

// TestKeyField tests keys in bodies: each is one key, whatever else the request has, and what could
// be read as another key is refused.
func TestKeyField(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		field    string
		required bool
		first    *http.Request
		again    *http.Request
		want     string
	}{
		"the same":            {"/idempotency_key", true, posted(jsonType, `{"idempotency_key":"k","n":1}`), posted(jsonType, `{"idempotency_key":"k","n":1}`), "order 1, order 1"},
		"another body":        {"/idempotency_key", true, posted(jsonType, `{"idempotency_key":"k","n":1}`), posted(jsonType, `{"idempotency_key":"k","n":2}`), "order 1, payload-mismatch"},
		"another key":         {"/idempotency_key", true, posted(jsonType, `{"idempotency_key":"k"}`), posted(jsonType, `{"idempotency_key":"j"}`), "order 1, order 2"},
		"within":              {"$.meta.key", true, posted(jsonType, `{"meta":{"key":"k"}}`), posted("application/vnd.a+json", `{"meta":{"key":"k"}}`), "order 1, payload-mismatch"},
		"a number":            {"/id", true, posted(jsonType, `{"id":17}`), posted(jsonType, `{"id":17}`), "order 1, order 1"},
		"a form":              {"id", true, posted(formType, "id=k&n=1"), posted(formType, "id=k&n=1"), "order 1, order 1"},
		"no form":             {"/id", true, posted(formType, "id=k"), posted(jsonType, `{"id":"k"}`), "key-missing, order 1"},
		"before the header":   {"/id", false, posted(jsonType, `{"id":"k"}`, "Idempotency-Key", "a"), posted(jsonType, `{"id":"k"}`, "Idempotency-Key", "b"), "order 1, order 1"},
		"as in the header":    {"/id", false, posted(jsonType, `{"id":"k"}`), posted(jsonType, `{"id":"k"}`, "Idempotency-Key", "a,b"), "order 1, order 1"},
		"in the header alone": {"/id", true, posted(jsonType, `{}`, "Idempotency-Key", "a"), posted(jsonType, `{}`, "Idempotency-Key", "a"), "order 1, order 1"},
		"a bad header":        {"/id", false, posted(jsonType, `{}`, "Idempotency-Key", "a,b"), posted(jsonType, `{"id":null}`, "Idempotency-Key", ""), "key-malformed, key-malformed"},
		"none":                {"/id", false, posted(jsonType, `{"n":1}`), posted(jsonType, `{"n":1}`), "order 1, order 2"},
		"none, though needed": {"/id", true, posted(jsonType, `{"n":1}`), posted(jsonType, ""), "key-missing, key-missing"},
		"empty":               {"/id", false, posted(jsonType, `{"id":""}`), posted(jsonType, `{"id":""}`), "key-malformed, key-malformed"},
		"twice":               {"/id", false, posted(jsonType, `{"id":"a","id":"b"}`), posted(jsonType, `{"id":"a","ID":"b"}`), "key-malformed, key-malformed"},
		"another spelling":    {"/id", false, posted(jsonType, `{"Id":"a"}`), posted(jsonType, `{"id":["a"]}`), "key-malformed, key-malformed"},
		"no JSON":             {"/id", false, posted(jsonType, `{"id":"a"`), posted(jsonType, `{"id":"a"} x`), "key-malformed, key-malformed"},
		"not ASCII":           {"/id", false, posted(jsonType, `{"id":"é"}`), posted(jsonType, `{"id":"a\n"}`), "key-malformed, key-malformed"},
		"too long":            {"/id", false, posted(jsonType, `{"id":"`+strings.Repeat("a", 256)+`"}`), posted(jsonType, `{"id":"`+strings.Repeat("a", 255)+`"}`), "key-malformed, order 1"},
		"compressed":          {"/id", false, posted(jsonType, "\x1f\x8b", "Content-Encoding", "gzip"), posted(jsonType, `{}`, "Content-Type", "text/plain"), "key-malformed, key-malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &httpidem.Options{KeySource: httpidem.KeySource{Field: tt.field}}
			if tt.required {
				o.Key = httpidem.Required
			}
			send, _ := counted(newMiddleware(t, o))
			assert.Equal(t, send(tt.first)+", "+send(tt.again), tt.want, "first and again")
		})
	}
}

// TestKeyFieldSaysWhere tests that a refusal names the places of a key, and shows none.
func TestKeyFieldSaysWhere(t *testing.T) {
	t.Parallel()
	m := newMiddleware(t, &httpidem.Options{Key: httpidem.Required, KeySource: httpidem.KeySource{Field: "/id"}})
	for body, want := range map[string]string{`{}`: "Idempotency-Key, or in the field /id of the body", `{"id":"sécret"}`: "The field /id of the body"} {
		w := httptest.NewRecorder()
		m.Handler(http.NotFoundHandler()).ServeHTTP(w, posted(jsonType, body))
		assert.Contains(t, w.Body.String(), want, "%s", body)
		assert.True(t, !strings.Contains(w.Body.String(), "cret"), "no key: %s", w.Body)
	}
}

// TestKeyFieldOfStrangers tests that the keys of two callers are two keys, and that an anonymous
// caller's must be long.
func TestKeyFieldOfStrangers(t *testing.T) {
	t.Parallel()
	send, _ := counted(newMiddleware(t, &httpidem.Options{
		KeySource: httpidem.KeySource{Field: "/id"},
		Tenant:    func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil },
	}))
	assert.Equal(t, send(posted(jsonType, `{"id":"k"}`, "X-User", "ann")), "order 1", "ann")
	assert.Equal(t, send(posted(jsonType, `{"id":"k"}`, "X-User", "bob")), "order 2", "bob")
	assert.Equal(t, send(posted(jsonType, `{"id":"k"}`)), "key-too-short", "nobody")
}

func TestKeyFieldIsChecked(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		o    httpidem.Options
		want string
	}{
		"a header":    {httpidem.Options{KeySource: httpidem.KeySource{Field: "header:X-Key"}}, "no field of a body"},
		"a query":     {httpidem.Options{KeySource: httpidem.KeySource{Field: "query:key"}}, "no field of a body"},
		"an array":    {httpidem.Options{KeySource: httpidem.KeySource{Field: "$.a[0]"}}, "no field"},
		"made keys":   {httpidem.Options{Key: httpidem.Params, KeySource: httpidem.KeySource{Field: "/id"}}, "takes none of those"},
		"tokens":      {httpidem.Options{Key: httpidem.Token, KeySource: httpidem.KeySource{Field: "/id"}}, "takes none of those"},
		"off":         {httpidem.Options{Key: httpidem.Off, KeySource: httpidem.KeySource{Field: "/id"}}, "takes none of those"},
		"two of form": {httpidem.Options{KeySource: httpidem.KeySource{Field: "id", Form: true}}, "both name a field of forms"},
	} {
		tt.o.Tenant = httpidem.Global
		err := tt.o.Validate(retrysafe.Policy{})
		assert.True(t, err != nil && strings.Contains(err.Error(), tt.want), "%s: %v", what, err)
	}
	good := httpidem.Options{Tenant: httpidem.Global, KeySource: httpidem.KeySource{Field: "/idempotency_key", Form: true}}
	assert.NoError(t, good.Validate(retrysafe.Policy{}), "JSON beside forms")
}

// FuzzKeyField: a body with a key is guarded or refused, never passed on without a guard.
func FuzzKeyField(f *testing.F) {
	for _, body := range []string{`{"id":"k"}`, `{"id":""}`, `{"ID":"k"}`, `[]`, `{"id":{"id":1}}`, `{"id":"k","id":"j"}`, "\xff"} {
		f.Add(jsonType, body)
	}
	f.Add("Application/JSON;charset=utf-8", `{"id":"k"}`)
	f.Add("application/json, text/plain", `{"id":"k"}`)
	f.Fuzz(func(t *testing.T, media, body string) {
		var guarded, ran bool
		m := newMiddleware(t, &httpidem.Options{KeySource: httpidem.KeySource{Field: "/id"}})
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.Header["Content-Type"] = []string{media}
		m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, guarded = retrysafe.AttemptFrom(r.Context())
			ran = true
		})).ServeHTTP(httptest.NewRecorder(), r)
		if media == jsonType && body == `{"id":"k"}` && (!ran || !guarded) {
			t.Fatalf("ran %t, guarded %t", ran, guarded)
		}
		if ran && !guarded && media == jsonType && strings.HasPrefix(body, `{"id":"`) {
			t.Fatalf("%q is not guarded", body)
		}
	})
}
