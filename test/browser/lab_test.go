package browsertest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/browser"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// lab is a page that has the script as window.rs, and a service whose answers a test sets one by
// one.
type lab struct {
	url  string
	mu   sync.Mutex
	seen []arrival
	plan []http.HandlerFunc // for the next requests; the last one is repeated
}

// arrival is a received request.
type arrival struct{ key, body, contentType string }

func openLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{}
	mux := http.NewServeMux()
	mux.Handle("GET /retrysafe.js", browser.Handler())
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!doctype html><title>Lab</title><script type="module">window.rs = await import("/retrysafe.js"); document.body.dataset.ready = "yes"</script><p>`)
	})
	mux.HandleFunc("OPTIONS /", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Allow-Headers", "Idempotency-Key, Content-Type")
	})
	mux.Handle("GET /none", http.NotFoundHandler())
	mux.HandleFunc("POST /", l.serve)
	mux.HandleFunc("PUT /", l.serve)
	server := httptest.NewUnstartedServer(mux)
	// Chromium itself retries what was lost on a reused connection
	server.Config.SetKeepAlivesEnabled(false)
	server.Start()
	t.Cleanup(server.Close)
	l.url = server.URL
	return l
}

func (l *lab) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	l.mu.Lock()
	l.seen = append(l.seen, arrival{r.Header.Get("Idempotency-Key"), string(body), r.Header.Get("Content-Type")})
	next := l.plan[0]
	if len(l.plan) > 1 {
		l.plan = l.plan[1:]
	}
	l.mu.Unlock()
	w.Header().Set("Access-Control-Allow-Origin", "*")
	next(w, r)
}

// setAnswers sets the answers to the next requests, with the last one repeated, and forgets earlier
// requests.
func (l *lab) setAnswers(plan ...http.HandlerFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plan, l.seen = plan, nil
}

// requestsSince returns the requests since then.
func (l *lab) requestsSince() []arrival {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]arrival(nil), l.seen...)
}

// sameKey checks that there were n requests, all with the same content.
func (l *lab) sameKey(t *testing.T, n int) string {
	t.Helper()
	all := l.requestsSince()
	assert.Equal(t, len(all), n, "requests")
	for _, a := range all {
		assert.Equal(t, a, all[0], "each request")
	}
	assert.True(t, len(all[0].key) >= 22, "the key %q is long enough", all[0].key)
	return all[0].key
}

func (l *lab) openPage(t *testing.T) *tab {
	t.Helper()
	b := openTab(t, l.url)
	b.awaitReady()
	return b
}

func (b *tab) awaitReady() {
	b.t.Helper()
	b.awaitScript("document.body.dataset.ready", "yes")
}

// cutConnection cuts the connection before a byte of an answer.
func cutConnection(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// answerHalf answers with half of the announced length.
func answerHalf(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	fmt.Fprint(w, "half")
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func answerStatus(code int, fields ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(fields); i += 2 {
			w.Header().Set(fields[i], fields[i+1])
		}
		w.WriteHeader(code)
		if code != http.StatusNoContent && code != http.StatusNotModified {
			fmt.Fprintf(w, "status %d", code)
		}
	}
}

// answerProblem answers as the middleware does, but without Retry-After, which tests would have to
// wait for.
func answerProblem(code string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { httpidem.NewProblem(code, nil).ServeHTTP(w, r) }
}

// guardService is a service with the middleware; work gets the number of its run.
func guardService(t *testing.T, change func(*httpidem.Options), work func(http.ResponseWriter, *http.Request, int)) http.HandlerFunc {
	t.Helper()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("16 random bytes!"), Sweep: -1})
	t.Cleanup(func() { assert.NoError(t, e.Shutdown(context.Background()), "shutdown") })
	o := &httpidem.Options{Tenant: httpidem.Global}
	if change != nil {
		change(o)
	}
	var mu sync.Mutex
	n := 0
	return httpidem.New(e, o).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n++
		count := n
		mu.Unlock()
		work(w, r, count)
	})).ServeHTTP
}

// loseAnswer runs h, and loses its answer.
func loseAnswer(h http.HandlerFunc) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		h(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
}

// fetchCall is fetchOnce with an action of its name and fast retries. It resolves to "status body"
// or "Error: …".
func fetchCall(action, path, init, opts string) string {
	name, _ := json.Marshal(action)
	return fmt.Sprintf(`rs.fetchOnce(%s, %q, %s, { minWait: 1, hold: 0, ...%s }).then(async (r) => r.status + " " + await r.text(), (e) => e.name + ": " + e.message)`,
		name, path, orElse(init, `{ body: "tea" }`), orElse(opts, "{}"))
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
