package httpidem_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestKeysOfRequests tests where the key of a request comes from, and which requests have none.
func TestKeysOfRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := 0
		fresh := func() string { n++; return fmt.Sprint("fresh-", n) }
		for name, tt := range map[string]struct {
			method, header, ctx string
			newKey              func() string
			want                string // the key of each of two tries
		}{
			"header":                  {"POST", "h", "", nil, "h h"},
			"header over context":     {"POST", "h", "c", fresh, "h h"},
			"context":                 {"POST", "", "c", nil, "c c"},
			"context over NewKey":     {"PATCH", "", "c", fresh, "c c"},
			"NewKey":                  {"POST", "", "", fresh, "fresh-1 fresh-1"},
			"none":                    {"POST", "", "", nil, ""},
			"PUT has the context's":   {"PUT", "", "c", nil, "c c"},
			"PUT needs none":          {"PUT", "", "", nil, " "},
			"GET has none":            {"GET", "", "c", fresh, " "},
			"no method is GET":        {"", "", "c", fresh, " "},
			"CONNECT is left alone":   {"CONNECT", "", "c", fresh, ""},
			"GET keeps the caller's":  {"GET", "h", "c", nil, "h h"},
			"a comma is quoted":       {"POST", "", "a,b", nil, `"a,b" "a,b"`},
			"a quote is escaped":      {"POST", "", `a"b\c`, nil, `"a\"b\\c" "a\"b\\c"`},
			"spaces stay":             {"POST", "", " a ", nil, `" a " " a "`},
			"the longest":             {"POST", "", strings.Repeat("k", 255), nil, strings.Repeat("k", 255) + " " + strings.Repeat("k", 255)},
			"the longest, all quoted": {"POST", "", strings.Repeat(`"`, 255), nil, `"` + strings.Repeat(`\"`, 255) + `" "` + strings.Repeat(`\"`, 255) + `"`},
		} {
			n = 0
			ctx := t.Context()
			if tt.ctx != "" {
				ctx = httpidem.ContextWithKey(ctx, tt.ctx)
			}
			s := &script{replies: []reply{{status: 503}, {status: 200}}}
			r := outgoing(ctx, tt.method, tt.header, "x")
			r.Method = tt.method
			_, err := (&httpidem.Transport{Base: s, NewKey: tt.newKey}).RoundTrip(r)
			assert.NoError(t, err, "%s", name)
			var got []string
			for _, h := range s.headers {
				got = append(got, h.Get("Idempotency-Key"))
			}
			assert.Equal(t, strings.Join(got, " "), tt.want, "%s: keys", name)
		}
	})
}

// TestWithoutAKey tests that a request that no server can tell from a new one is sent unchanged,
// and once.
func TestWithoutAKey(t *testing.T) {
	t.Parallel()
	r := outgoing(t.Context(), "POST", "", "x")
	for name, change := range map[string]func(){
		"none":      func() {},
		"empty":     func() { r.Header["Idempotency-Key"] = []string{""} },
		"two":       func() { r.Header["Idempotency-Key"] = []string{"a", "b"} },
		"taken off": func() { r.Header["Idempotency-Key"] = nil },
	} {
		change()
		n := 0
		_, err := (&httpidem.Transport{NewKey: map[bool]func() string{true: func() string { return "k" }}[name != "none"], Base: roundTrip(func(got *http.Request) (*http.Response, error) {
			n++
			assert.True(t, got == r, "%s: the request itself", name)
			return nil, io.EOF
		})}).RoundTrip(r)
		assert.Equal(t, fmt.Sprint(n, err), "1 EOF", "%s: tries and error", name)
	}
}

func TestOtherHeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &script{replies: []reply{{status: 200}}}
		tr := &httpidem.Transport{Base: s, Header: "x-idempotency-key", NewKey: func() string { return "k" }}
		_, err := tr.RoundTrip(outgoing(t.Context(), "POST", "", "x"))
		assert.NoError(t, err, "request")
		r := outgoing(t.Context(), "POST", "", "x")
		r.Header["x-IDEMPOTENCY-key"] = []string{"odd"}
		_, err = tr.RoundTrip(r)
		assert.NoError(t, err, "request")
		assert.Equal(t, fmt.Sprint(s.headers[0]["X-Idempotency-Key"], s.headers[1]), "[k] map[x-IDEMPOTENCY-key:[odd]]", "fields")
	})
}

// TestKeysThatCannotBeSent tests that such a key is an error that does not show it, and that
// nothing is sent.
func TestKeysThatCannotBeSent(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{
		"empty": "", "long": strings.Repeat("secret", 43), "a control": "secret\n", "not ASCII": "secret\u00e9", "a NUL": "\x00secret", "DEL": "secret\x7f",
	} {
		for from, tr := range map[string]*httpidem.Transport{"context": {}, "NewKey": {NewKey: func() string { return key }}} {
			ctx := t.Context()
			if from == "context" {
				ctx = httpidem.ContextWithKey(ctx, key)
			}
			s := &script{replies: []reply{{status: 200}}}
			tr.Base = s
			r := outgoing(ctx, "POST", "", "x")
			in := &closing{Reader: r.Body}
			r.Body = in
			_, err := tr.RoundTrip(r)
			assert.True(t, err != nil && strings.Contains(err.Error(), "nothing was sent"), "%s, %s: %v", name, from, err)
			assert.True(t, !strings.Contains(err.Error(), "secret"), "%s, %s: the error shows the key: %v", name, from, err)
			assert.Equal(t, fmt.Sprint(len(s.sent), in.closed.Load()), "0 true", "%s, %s: tries, body closed", name, from)
		}
	}
	s := &script{replies: []reply{{status: 200}}}
	_, err := (&httpidem.Transport{Base: s, Header: "no name"}).RoundTrip(outgoing(t.Context(), "POST", "k", "x"))
	assert.True(t, err != nil && len(s.sent) == 0, "a header that is none: %v", err)
}

// redirects maps URLs to the redirects that they answer with. It records the keys that each URL
// got.
type redirects struct {
	to     map[string]string
	status int
	got    map[string]string
}

func (w *redirects) RoundTrip(r *http.Request) (*http.Response, error) {
	w.got[r.URL.String()] = r.Method + " " + r.Header.Get("Idempotency-Key")
	if r.Body != nil {
		_ = r.Body.Close()
	}
	resp := &http.Response{StatusCode: 201, Header: http.Header{}, Body: http.NoBody}
	if to, ok := w.to[r.URL.String()]; ok {
		resp.StatusCode = w.status
		resp.Header.Set("Location", to)
	}
	return resp, nil
}

// TestRedirects tests that the key of the context is sent to the host of the first request and to
// no other.
func TestRedirects(t *testing.T) {
	t.Parallel()
	const first = "http://shop.example/orders"
	for name, tt := range map[string]struct {
		method, to, via string // via: a hop in between
		status          int
		want            string // what the last host got
	}{
		"another path":              {"POST", "http://shop.example/v2/orders", "", 307, "POST k"},
		"the same host in capitals": {"POST", "http://SHOP.example/v2", "", 308, "POST k"},
		"the port spelt out":        {"POST", "http://shop.example:80/v2", "", 307, "POST k"},
		"up to https":               {"POST", "https://shop.example/orders", "", 308, "POST k"},
		"up and back again":         {"POST", "http://shop.example/v2", "https://shop.example/orders", 307, "POST k"},
		"another host":              {"POST", "http://other.example/orders", "", 307, ""},
		"a part of the host":        {"POST", "http://eu.shop.example/orders", "", 307, ""},
		"another port":              {"POST", "http://shop.example:81/orders", "", 307, ""},
		"https at another port":     {"POST", "https://shop.example:444/orders", "", 307, ""},
		"away in two hops":          {"POST", "http://other.example/orders", "http://shop.example/v2", 307, ""},
		"PUT goes without":          {"PUT", "http://other.example/orders", "", 307, "PUT "},
		"PUT, away and back":        {"PUT", "http://shop.example/v2", "http://other.example/orders", 307, "PUT k"},
		"see other":                 {"POST", "http://other.example/orders/1", "", 303, "GET "},
	} {
		w := &redirects{map[string]string{first: tt.to}, tt.status, map[string]string{}}
		if tt.via != "" {
			w.to = map[string]string{first: tt.via, tt.via: tt.to}
		}
		r, _ := http.NewRequestWithContext(httpidem.ContextWithKey(t.Context(), "k"), tt.method, first, strings.NewReader("x"))
		resp, err := (&http.Client{Transport: &httpidem.Transport{Base: w}}).Do(r)
		assert.Equal(t, w.got[first], tt.method+" k", "%s: the first", name)
		assert.Equal(t, w.got[tt.to], tt.want, "%s: the last", name)
		assert.Equal(t, err != nil, tt.want == "", "%s: error %v", name, err)
		if err != nil {
			assert.Contains(t, err.Error(), "another host", "%s", name)
			continue
		}
		_ = resp.Body.Close()
	}
}

// TestRedirectsThatTheCallerKnows tests that a header that the caller sets in CheckRedirect is
// sent, and that a request whose first request is unknown gets no key.
func TestRedirectsThatTheCallerKnows(t *testing.T) {
	t.Parallel()
	const first, next = "http://shop.example/orders", "http://leader.example/orders"
	w := &redirects{map[string]string{first: next}, 307, map[string]string{}}
	client := &http.Client{Transport: &httpidem.Transport{Base: w}, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		r.Header.Set("Idempotency-Key", "k")
		return nil
	}}
	ctx := httpidem.ContextWithKey(context.Background(), "k")
	r, _ := http.NewRequestWithContext(ctx, "POST", first, strings.NewReader("x"))
	resp, err := client.Do(r)
	assert.NoError(t, err, "request")
	_ = resp.Body.Close()
	assert.Equal(t, w.got[next], "POST k", "the leader")

	r, _ = http.NewRequestWithContext(ctx, "POST", next, strings.NewReader("x"))
	r.Response = &http.Response{}
	_, err = client.Transport.RoundTrip(r)
	assert.True(t, err != nil, "nobody knows who was asked first")
	r.Response, r.URL = nil, nil
	_, err = (&httpidem.Transport{MaxAttempts: 1, Base: roundTrip(func(*http.Request) (*http.Response, error) { return nil, io.EOF })}).RoundTrip(r)
	assert.Equal(t, err, io.EOF, "a first request is for Base to judge")
}
