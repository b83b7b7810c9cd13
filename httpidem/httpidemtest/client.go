package httpidemtest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// world is an implementation, its origin, and a client.
type world struct {
	t      *testing.T
	base   string
	http   *http.Client
	http2  bool
	starts atomic.Int64 // of the origin
}

// origin is the handler that a test gives the implementation.
type origin func(w http.ResponseWriter, r *http.Request)

// serveCreated answers 201 with a body that is different for each run.
func (wd *world) serveCreated(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", "/orders/1")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write([]byte(`{"run":` + strconv.FormatInt(wd.starts.Load(), 10) + `,"got":` + strconv.Itoa(len(body)) + "}"))
}

// newWorld opens an implementation. A nil handler means serveCreated; the origin's starts are
// counted in both cases.
func newWorld(t *testing.T, open Open, s Setup, handler origin) *world {
	t.Helper()
	wd := &world{t: t}
	if s.Store == nil {
		s.Store = memstore.New(nil)
	}
	if handler == nil {
		handler = wd.serveCreated
	}
	wd.base = open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wd.starts.Add(1)
		handler(w, r)
	}), s)
	transport := &http.Transport{DisableCompression: true}
	if rest, ok := strings.CutPrefix(wd.base, h2c); ok {
		wd.base, wd.http2 = "http"+rest, true
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	t.Cleanup(transport.CloseIdleConnections)
	wd.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return wd
}

// reply is an answer, read whole.
type reply struct {
	status  int
	header  http.Header
	trailer http.Header
	body    string
}

// problemCode returns the code of a problem.
func (r reply) problemCode() string {
	var p struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal([]byte(r.body), &p)
	return p.Code
}

func (r reply) isReplay() bool { return r.header.Get("Idempotency-Replayed") == "true" }

// call is a request. Header pairs are added in order, so a name may occur twice.
type call struct {
	method, path, body string
	header             []string
	ctx                context.Context
}

// send sends a request once; an error ends the test.
func (wd *world) send(c call) reply {
	wd.t.Helper()
	r, err := wd.trySend(c)
	assert.NoError(wd.t, err, "%s %s", c.method, c.path)
	return r
}

func (wd *world) trySend(c call) (reply, error) {
	if c.method == "" {
		c.method = http.MethodPost
	}
	if c.path == "" {
		c.path = "/orders"
	}
	if c.ctx == nil {
		c.ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(c.ctx, 3*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, c.method, wd.base+c.path, strings.NewReader(c.body))
	if err != nil {
		return reply{}, err
	}
	req.GetBody = nil // the client itself must not retry
	for i := 0; i < len(c.header); i += 2 {
		req.Header[http.CanonicalHeaderKey(c.header[i])] = append(req.Header[http.CanonicalHeaderKey(c.header[i])], c.header[i+1])
	}
	resp, err := wd.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	assert.Equal(wd.t, resp.ProtoMajor == 2, wd.http2, "the answer came over HTTP/2")
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, resp.Trailer, string(body)}, err
}

// longKey has more than the 22 characters that callers without a credential need.
const longKey = "a-key-of-more-than-22-characters"

func withKey(key string, more ...string) []string {
	return append([]string{"Idempotency-Key", key, "Authorization", "Bearer opaque-token"}, more...)
}

// keyedCall returns a request with a key and a credential.
func keyedCall(key, body string, more ...string) call {
	return call{body: body, header: withKey(key, more...)}
}

func (wd *world) checkStarts(want int64, what string) {
	wd.t.Helper()
	assert.Equal(wd.t, wd.starts.Load(), want, "starts of the origin %s", what)
}

// checkProblem checks that an answer is the problem with that status and code, with or without
// Retry-After.
func (wd *world) checkProblem(r reply, status int, code string, retry bool) {
	wd.t.Helper()
	assert.Equal(wd.t, r.status, status, "status (body %s)", r.body)
	assert.Equal(wd.t, r.problemCode(), code, "code")
	assert.Equal(wd.t, r.header.Get("Content-Type"), "application/problem+json", "content type")
	assert.Contains(wd.t, r.header.Get("Link"), `problems/`+code+`.md>; rel="describedby"`, "Link")
	after := r.header.Get("Retry-After")
	if !retry {
		assert.Equal(wd.t, after, "", "Retry-After")
		return
	}
	seconds, err := strconv.Atoi(after)
	assert.True(wd.t, err == nil && seconds >= 1 && seconds <= 5, "Retry-After is 1 to 5 whole seconds: %q", after)
}

// checkReplay checks that again is a replay of first.
func (wd *world) checkReplay(first, again reply) {
	wd.t.Helper()
	assert.True(wd.t, again.isReplay(), "the repeat says that it is replayed")
	assert.Equal(wd.t, again.status, first.status, "status")
	assert.Equal(wd.t, again.body, first.body, "body")
	for name, values := range first.header {
		if name == "Set-Cookie" || name == "Connection" || name == "Idempotency-Replayed" || name == "Trailer" {
			continue
		}
		assert.Equal(wd.t, again.header[name], values, "field %s", name)
	}
	for name := range again.header {
		_, had := first.header[name]
		assert.True(wd.t, had || name == "Idempotency-Replayed" || name == "Content-Length", "the repeat has no field of its own: %s", name)
	}
}

// waitUntil waits for an effect of another goroutine.
func (wd *world) waitUntil(ok func() bool, what string) {
	wd.t.Helper()
	const patience = 3 * time.Minute // much longer than a busy machine needs
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	wd.t.Fatalf("it did not come within %v: %s", patience, what)
}
