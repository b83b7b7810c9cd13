package input_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/check/input"
)

// harFileOf returns a HAR file with entries.
func harFileOf(entries ...string) []byte {
	var list []string
	for _, e := range entries {
		list = append(list, `{"startedDateTime": "2026-01-01T00:00:00Z", "request": `+e+`, "response": {"status": 200}}`)
	}
	return []byte("\xef\xbb\xbf" + `{"log": {"version": "1.2", "entries": [` + strings.Join(list, ",\n") + `]}}`)
}

func TestHAR(t *testing.T) {
	t.Parallel()
	all, err := input.HAR(harFileOf(
		`{"method": "GET", "url": "https://shop.example/"}`,
		`{"method": "OPTIONS", "url": "https://shop.example/orders"}`,
		`{"method": "POST", "url": "https://shop.example/orders?a=b#part", "headers": [
			{"name": ":authority", "value": "shop.example"}, {"name": ":method", "value": "POST"},
			{"name": "host", "value": "shop.example"}, {"name": "content-length", "value": "3"},
			{"name": "Connection", "value": "keep-alive"}, {"name": "accept-encoding", "value": "br"},
			{"name": "content-type", "value": "application/json"}, {"name": "x-a", "value": "1"},
			{"name": "X-A", "value": "2"}, {"name": "cookie", "value": "a=b"}, {"name": "cookie", "value": "c=d"}],
			"cookies": [{"name": "a", "value": "b"}],
			"postData": {"mimeType": "text/plain", "text": "{}"}}`,
		`{"method": "POST", "url": "https://shop.example/orders", "headers": [{"name": "Host", "value": "other.example"}],
			"cookies": [{"name": "a", "value": "b"}, {"name": "c", "value": "d"}],
			"postData": {"mimeType": "image/png", "encoding": "base64", "text": "iVBORw=="}}`,
		`{"method": "PUT", "url": "https://shop.example", "postData": {"mimeType": "application/x-www-form-urlencoded; charset=utf-8",
			"text": "", "params": [{"name": "a b", "value": "1&2"}, {"name": "c", "value": "%26+x"}]}}`,
		`{"method": "DELETE", "url": "https://shop.example/orders/1", "postData": null}`,
		`{"method": "POST", "url": "https://shop.example/files", "postData": {"mimeType": "multipart/form-data; boundary=x",
			"params": [{"name": "f", "fileName": "a.txt", "contentType": "text/plain"}]}}`,
	))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		name, url, body string
		header          http.Header
	}{
		{
			"POST /orders", "https://shop.example/orders?a=b", "{}",
			http.Header{"Content-Type": {"application/json"}, "X-A": {"1", "2"}, "Cookie": {"a=b; c=d"}},
		},
		{
			"POST /orders (2)", "https://shop.example/orders", "\x89PNG",
			http.Header{"Host": {"other.example"}, "Cookie": {"a=b; c=d"}, "Content-Type": {"image/png"}},
		},
		{
			"PUT /", "https://shop.example", "a+b=1%262&c=%26+x",
			http.Header{"Content-Type": {"application/x-www-form-urlencoded; charset=utf-8"}},
		},
		{"DELETE /orders/1", "https://shop.example/orders/1", "", http.Header{}},
	} {
		got := all[i]
		if got.Name != want.name || got.Request.URL != want.url || string(got.Request.Body) != want.body ||
			!reflect.DeepEqual(got.Request.Header, want.header) || got.Reason != "" {
			t.Errorf("%d: %+v, want %+v", i, got, want)
		}
	}
	if last := all[len(all)-1]; len(all) != 5 || !strings.HasPrefix(last.Reason, "/log/entries/6/request/postData: ") {
		t.Errorf("%d requests, the last %+v", len(all), last)
	}
}

func TestHARNamesThePlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ entry, want string }{
		{`{"method": "A B", "url": "http://a.example"}`, "/log/entries/0/request/method: "},
		{`{"method": "POST", "url": "about:blank"}`, "/log/entries/0/request/url: "},
		{`{"method": "POST", "url": "http://a.example", "headers": [{"name": "a b"}]}`, "/log/entries/0/request/headers/0: "},
		{`{"method": "POST", "url": "http://a.example", "cookies": [{"name": "a\n"}]}`, "/log/entries/0/request/cookies: "},
		{`{"method": "POST", "url": "http://a.example", "postData": {"text": "!", "encoding": "base64"}}`, "/log/entries/0/request/postData: "},
	} {
		all, err := input.HAR(harFileOf(c.entry))
		if err != nil || len(all) != 1 || !strings.HasPrefix(all[0].Reason, c.want) {
			t.Errorf("%s: %+v, %v; want %q", c.entry, all, err, c.want)
		}
	}
	for text, want := range map[string]string{
		"":                         "line 1, column 1",
		"{\n \"log\": {]}":         "line 2, column 10",
		`{}`:                       "/log is missing",
		`{"log": {"entries": {}}}`: "/log/entries is a JSON object",
	} {
		if all, err := input.HAR([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %q", text, all, err, want)
		}
	}
}

func TestPick(t *testing.T) {
	t.Parallel()
	ok := input.Named{Name: "POST /orders", ID: "createOrder"}
	bad := input.Named{Name: "PUT /orders/{id}", Reason: "no example"}
	other := input.Named{Name: "DELETE /orders/1"}
	for _, c := range []struct {
		all        []input.Named
		pick, want string
		name       string
	}{
		{[]input.Named{bad, ok}, "", "", "POST /orders"},
		{[]input.Named{bad, ok, other}, "createOrder", "", "POST /orders"},
		{[]input.Named{bad, ok, other}, "DELETE /orders/1", "", "DELETE /orders/1"},
		{[]input.Named{bad, ok, other}, "", "pick one of POST /orders, DELETE /orders/1", ""},
		{[]input.Named{bad}, "", "the first, PUT /orders/{id}: no example", ""},
		{[]input.Named{bad, ok}, "PUT /orders/{id}", "PUT /orders/{id} cannot be sent: no example", ""},
		{[]input.Named{bad, ok}, "x", `there is no "x"; pick one of PUT /orders/{id}, POST /orders`, ""},
		{nil, "", "no request in it would have an effect", ""},
		{make([]input.Named, 50), "x", "and 30 more", ""},
	} {
		got, err := input.Pick(c.all, c.pick)
		if got.Name != c.name || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q of %v: %+v, %v", c.pick, c.all, got, err)
		}
	}
}

func FuzzHAR(f *testing.F) {
	f.Add(harFileOf(`{"method": "POST", "url": "https://shop.example/orders", "headers": [{"name": "a", "value": "b"}], "postData": {"text": "a"}}`))
	f.Add(harFileOf(`{"method": "PUT", "url": "http://a/", "postData": {"mimeType": "application/x-www-form-urlencoded", "params": [{"name": "a"}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := input.HAR(data)
		if err != nil {
			return
		}
		for _, n := range all {
			assertSendable(t, n)
		}
	})
}

// assertSendable fails the test if n has no reason and cannot be sent.
func assertSendable(t *testing.T, n input.Named) {
	t.Helper()
	if n.Reason != "" {
		return
	}
	r, err := http.NewRequestWithContext(t.Context(), n.Request.Method, n.Request.URL, strings.NewReader(string(n.Request.Body)))
	if err != nil || r.URL.Host == "" {
		t.Errorf("%+v: %v", n, err)
		return
	}
	r.Header = n.Request.Header
	if err := r.Write(discard{}); err != nil {
		t.Errorf("%+v: %v", n, err)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
