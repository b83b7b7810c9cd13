package check_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
)

// serveAnswer serves one answer.
func serveAnswer(t *testing.T, status int, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestPageCounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path, body string
		want       int64
	}{
		{"", " 12\n", 12},
		{"$.total", `{"total": 12}`, 12},
		{"$.total", `{"total": 12.0}`, 12},
		{"$.total", `{"total": "9007199254740993"}`, 9007199254740993},
		{"$.total", `{}`, 0},
		{"$", `null`, 0},
		{"$", `[{"id": 7}, {"id": 8}]`, 2},
		{"$", `5`, 5},
		{"$.orders", `{"orders": []}`, 0},
		{"$.orders", `{"orders": ["a", "b", "c"]}`, 3},
		{"$.orders[0].lines", `{"orders": [{"lines": [1, 2]}]}`, 2},
		{"$.orders.*", `{"orders": {"a": {}, "b": {}}}`, 2},
		// the number of one order is not the number of orders
		{"$.orders[*].id", `{"orders": [{"id": 4711}]}`, 1},
		{"$.orders[?@.ref == 'x']", `{"orders": [{"ref": "x"}, {"ref": "y"}, {"ref": "x"}]}`, 2},
		{"$..id", `[{"id": "a"}, {"id": "b"}, {"id": "c"}]`, 3},
		{"$..id", `[]`, 0},
	} {
		p := check.Page{URL: serveAnswer(t, http.StatusOK, c.body), Path: c.path}
		if got, err := p.Count(t.Context()); err != nil || got != c.want {
			t.Errorf("%q in %s: %d, %v; want %d", c.path, c.body, got, err, c.want)
		}
	}
}

func TestPageSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status           int
		path, body, want string
	}{
		{http.StatusOK, "", "<html>hi</html>", `is no whole number: "<html>hi</html>"`},
		{http.StatusOK, "$.n", "<html>hi</html>", `no JSON`},
		{http.StatusOK, "$.n", `{"n": 12.5}`, "12.5"},
		{http.StatusOK, "$.n", `{"n": 1e300}`, "1e+300"},
		{http.StatusOK, "$.n", `{"n": "twelve"}`, `"twelve"`},
		{http.StatusOK, "$.n", `{"n": true}`, "true"},
		{http.StatusOK, "$.n", `{"n": {"total": 1, "sum": 2}}`, `"sum, total"`},
		{http.StatusOK, "$.", `{}`, `JSONPath "$."`},
		{http.StatusNotFound, "$", `{"error": "no such page"}`, `404 Not Found: "{\"error\"`},
		{http.StatusFound, "$", ``, "302"},
		{http.StatusOK, "$", strings.Repeat(" ", 17<<20), "16 MiB"},
	} {
		p := check.Page{URL: serveAnswer(t, c.status, c.body) + "/orders?key=secret", Path: c.path}
		if n, err := p.Count(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d %.40q, path %q: %d, %v; want %q in the error", c.status, c.body, c.path, n, err, c.want)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%v has the query", err)
		}
	}
	port, err := freeport.Get()
	assert.NoError(t, err, "a free port")
	_, err = check.Page{URL: "http://127.0.0.1:" + port + "/orders?key=secret"}.Count(t.Context())
	if err == nil || !strings.Contains(err.Error(), "GET /orders") || strings.Contains(err.Error(), "secret") {
		t.Errorf("a server that is not there: %v", err)
	}
}

func TestPageSendsItsFieldsAndNoBody(t *testing.T) {
	t.Parallel()
	got := make(chan *http.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r
		_, _ = io.WriteString(w, "1")
	}))
	defer server.Close()
	header := http.Header{"Authorization": {"Bearer x"}, "Accept": {"text/csv"}, "Host": {"shop.example"}}
	if _, err := (check.Page{URL: server.URL, Header: header}).Count(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := <-got
	if r.Method != http.MethodGet || r.Header.Get("Authorization") != "Bearer x" ||
		r.Header.Get("Accept") != "text/csv" || r.Header.Get("Cache-Control") != "no-cache" || r.Host != "shop.example" {
		t.Errorf("%s to %s with %v", r.Method, r.Host, r.Header)
	}
}

func TestPageEndsWithItsContext(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := (check.Page{URL: server.URL}).Count(ctx); err == nil || ctx.Err() == nil {
		t.Errorf("the count ended with %v", err)
	}
}

func TestParsePage(t *testing.T) {
	t.Parallel()
	const base = "https://api.example/v1/orders?dry=1"
	for _, c := range []struct{ text, base, url, path, name string }{
		{"GET /orders | $.total", base, "https://api.example/orders", "$.total", "GET /orders, $.total"},
		{"get items|$", base, "https://api.example/v1/items", "$", "GET /v1/items, $"},
		{"/count", base, "https://api.example/count", "", "GET /count"},
		{"http://localhost:1/?a=b", "", "http://localhost:1/?a=b", "", "GET /"},
		{"http://localhost:1", base, "http://localhost:1", "", "GET /"},
		{"/o | $[?@.a == 1 || @.b == 2]", base, "https://api.example/o", "$[?@.a == 1 || @.b == 2]", "GET /o, $[?@.a == 1 || @.b == 2]"},
	} {
		p, err := check.ParsePage(c.text, c.base)
		if err != nil || p.URL != c.url || p.Path != c.path || p.String() != c.name {
			t.Errorf("%q: %+v %q, %v", c.text, p, p.String(), err)
		}
	}
	for text, want := range map[string]string{
		"":                     "write it as",
		"POST /orders":         "write it as",
		"GET /a /b":            "write it as",
		"/orders | total":      "JSONPath",
		"ftp://host/orders":    "http://",
		"http://[::1/orders":   "its URL",
		"mailto:a@example.com": "http://",
	} {
		if p, err := check.ParsePage(text, base); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %q", text, p, err, want)
		}
	}
	if _, err := check.ParsePage("/orders", ""); err == nil {
		t.Error("a page without a host was taken")
	}
}
