package httpidemtest

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/token"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// tokenMint is a world whose implementation requires tokens.
type tokenMint struct {
	*world
	clock   *settableClock
	store   storeapi.Store
	options token.Options
}

// settableClock is the clock of the store.
type settableClock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *settableClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *settableClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

func newMint(t *testing.T, open Open, s Setup, stateless bool, handler origin) *tokenMint {
	t.Helper()
	m := &tokenMint{clock: new(settableClock)}
	m.store = memstore.New(&memstore.Options{Now: m.clock.now})
	if stateless {
		m.options.StatelessSecret = []byte("the same 32 bytes on all processes")
	}
	s.Store, s.Guard.Key = m.store, httpidem.Token
	s.Guard.KeySource.Tokens = token.NewIssuer(m.otherEngine(), &m.options)
	m.world = newWorld(t, open, s, handler)
	return m
}

// otherEngine returns the engine of another process than the implementation.
func (m *tokenMint) otherEngine() *retrysafe.Engine {
	return retrysafe.New(m.store, &retrysafe.Options{Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
}

// issue issues a token for the caller with that Authorization field, in a process that knows the
// time of the store.
func (m *tokenMint) issue(credential string) string {
	m.t.Helper()
	e := m.otherEngine()
	tenant, _ := httpidem.ByAuthorization(e)
	who, err := tenant(&http.Request{Header: http.Header{"Authorization": {credential}}})
	assert.NoError(m.t, err, "tenant")
	text, err := token.NewIssuer(e, &m.options).Issue(m.t.Context(), who)
	assert.NoError(m.t, err, "issue")
	return text
}

const (
	ann = "Bearer ann"
	bob = "Bearer bob"
)

// sent are the ways in which a request can carry a token.
var sent = map[string]func(token string) call{
	"header": func(token string) call {
		return call{body: "item=tea", header: []string{"Idempotency-Key", token, "Authorization", ann}}
	},
	"form": func(token string) call {
		body := url.Values{"item": {"tea"}, "idempotency_key": {token}, "a": {"1", "2"}}.Encode()
		return call{body: body, header: []string{"Content-Type", "application/x-www-form-urlencoded; charset=utf-8", "Authorization", ann}}
	},
	"multipart": func(token string) call {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		_ = w.WriteField("item", "tea")
		file, _ := w.CreateFormFile("photo", "photo.jpg")
		_, _ = file.Write(bytes.Repeat([]byte{0, 1, 13, 10}, 5000))
		_ = w.WriteField("idempotency_key", token)
		_ = w.Close()
		return call{body: b.String(), header: []string{"Content-Type", w.FormDataContentType(), "Authorization", ann}}
	},
}

// testTokens tests a route that requires issued keys.
func testTokens(t *testing.T, open Open) {
	for _, stateless := range []bool{false, true} {
		for name, with := range sent {
			t.Run(fmt.Sprintf("once, by %s, stateless %t", name, stateless), func(t *testing.T) {
				t.Parallel()
				testTokenOnce(newMint(t, open, Setup{}, stateless, nil), with)
			})
		}
		t.Run(fmt.Sprintf("refusals are alike, stateless %t", stateless), func(t *testing.T) {
			t.Parallel()
			testTokenRefusals(newMint(t, open, Setup{}, stateless, nil))
		})
		t.Run(fmt.Sprintf("a hundred at once that wait, stateless %t", stateless), func(t *testing.T) {
			t.Parallel()
			m := newMint(t, open, Setup{Policy: retrysafe.Policy{Wait: 20 * time.Second}}, stateless, nil)
			c := sent["form"](m.issue(ann))
			replies, errs := make([]reply, 100), make([]error, 100)
			var wg sync.WaitGroup
			for i := range replies {
				wg.Go(func() { replies[i], errs[i] = m.trySend(c) })
			}
			wg.Wait()
			assert.NoError(t, errors.Join(errs...), "requests")
			for i := range replies {
				assert.Equal(t, fmt.Sprint(replies[i].status, replies[i].body), fmt.Sprint(201, replies[0].body), "answer %d", i)
			}
			m.checkStarts(1, "in all")
		})
		t.Run(fmt.Sprintf("a use that did nothing leaves the token as it was, stateless %t", stateless), func(t *testing.T) {
			t.Parallel()
			testTokenReleased(t, open, stateless)
		})
	}
	t.Run("without a token", func(t *testing.T) {
		t.Parallel()
		testTokenMissing(newMint(t, open, Setup{}, false, nil))
	})
	t.Run("in doubt", func(t *testing.T) {
		t.Parallel()
		m := newMint(t, open, Setup{}, false, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		c := sent["form"](m.issue(ann))
		_, _ = m.trySend(c)
		m.checkProblem(m.send(c), 409, "outcome-unknown", false)
		m.checkStarts(1, "in all")
	})
	t.Run("a body that is too large", func(t *testing.T) {
		t.Parallel()
		m := newMint(t, open, Setup{Guard: httpidem.Options{Limit: httpidem.LimitOptions{Body: 100}}}, false, nil)
		m.checkProblem(m.send(sent["multipart"](m.issue(ann))), 413, "body-too-large", false)
		m.checkStarts(0, "in all")
	})
}

// testTokenOnce tests that the first use runs, with its whole body, that duplicates get its answer
// long after the token's life, and that nothing is answered after the record's life.
func testTokenOnce(m *tokenMint, with func(string) call) {
	m.t.Helper()
	c := with(m.issue(ann))
	first := m.send(c)
	assert.Equal(m.t, first.status, 201, "status (body %s)", first.body)
	assert.Equal(m.t, first.body, fmt.Sprintf(`{"run":1,"got":%d}`, len(c.body)), "the origin got the whole body")
	m.checkReplay(first, m.send(c))
	for _, path := range []string{"/payments", "/orders?a=1"} {
		elsewhere := c
		elsewhere.path = path
		m.checkProblem(m.send(elsewhere), 422, "payload-mismatch", false)
	}
	m.clock.advance(time.Hour)
	m.checkReplay(first, m.send(c))
	m.clock.advance(24 * time.Hour)
	for range 2 {
		m.checkProblem(m.send(c), 403, "token-refused", false)
	}
	m.checkStarts(1, "in all")
}

// testTokenRefusals tests that a token that is unknown, expired, forged, another caller's or no
// token at all is refused, always with the same answer.
func testTokenRefusals(m *tokenMint) {
	m.t.Helper()
	old := m.issue(ann)
	m.clock.advance(6 * time.Minute)
	good := m.issue(ann)
	var first reply
	for name, text := range map[string]string{
		"expired": old, "another's": m.issue(bob), "of nobody": m.issue(""), "unknown": "3q2-7wABAgMEBQYHCAkKCwwNDg8QERITFBUWF",
		"cut": good[:len(good)-1], "grown": good + "A", "another spelling": strings.ToUpper(good), "short": "x", "longest": strings.Repeat("x", 255),
	} {
		for way, with := range sent {
			r := m.send(with(text))
			m.checkProblem(r, 403, "token-refused", false)
			if first.body == "" {
				first = r
			}
			r.header.Del("Date")
			first.header.Del("Date")
			assert.Equal(m.t, fmt.Sprint(r.header, r.body), fmt.Sprint(first.header, first.body), "the answer to a token that is %s, by %s", name, way)
		}
	}
	for name, body := range map[string]string{
		"twice": "idempotency_key=" + good + "&idempotency_key=" + good, "too long": "idempotency_key=" + strings.Repeat("x", 256),
		"escaped wrongly": "idempotency_key=%zz",
	} {
		r := m.send(call{body: body, header: []string{"Content-Type", "application/x-www-form-urlencoded", "Authorization", ann}})
		r.header.Del("Date")
		assert.Equal(m.t, fmt.Sprint(r.header, r.body), fmt.Sprint(first.header, first.body), "the answer to a field that is there %s", name)
	}
	nobody := m.send(call{header: []string{"Idempotency-Key", "x"}})
	m.checkProblem(nobody, 403, "token-refused", false)
	assert.Equal(m.t, nobody.body, first.body, "the answer to a short token without a credential")
	m.checkStarts(0, "for tokens that are not good")
	mine := m.send(sent["header"](good))
	assert.Equal(m.t, mine.status, 201, "the good one")
	theirs := sent["header"](good)
	theirs.header = []string{"Idempotency-Key", good, "Authorization", bob}
	m.checkProblem(m.send(theirs), 403, "token-refused", false)
	m.checkStarts(1, "in all")
}

// testTokenReleased tests that work that the origin says it did not do can be done with the same
// token, for the rest of its life and a lease longer.
func testTokenReleased(t *testing.T, open Open, stateless bool) {
	t.Helper()
	var m *tokenMint
	s := Setup{Policy: retrysafe.Policy{Lease: time.Minute, Retention: 2 * time.Minute}}
	m = newMint(t, open, s, stateless, func(w http.ResponseWriter, r *http.Request) {
		if m.starts.Load() < 3 {
			w.Header().Set("Idempotency-Outcome", "not-executed")
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		m.serveCreated(w, r)
	})
	c := sent["form"](m.issue(ann))
	for range 2 {
		r := m.send(c)
		assert.Equal(t, fmt.Sprint(r.status, r.isReplay()), "500 false", "the origin does nothing")
		// the second time, the token's own life is over
		m.clock.advance(5*time.Minute - time.Second)
	}
	first := m.send(c)
	assert.Equal(t, fmt.Sprint(first.status, first.isReplay()), "201 false", "the origin does it (body %s)", first.body)
	m.checkReplay(first, m.send(c))
	m.clock.advance(7 * time.Minute)
	m.checkProblem(m.send(c), 403, "token-refused", false)
	m.checkStarts(3, "in all")
}

func testTokenMissing(m *tokenMint) {
	m.t.Helper()
	form := func(contentType, body string) call {
		return call{body: body, header: []string{"Content-Type", contentType, "Authorization", ann}}
	}
	good := m.issue(ann)
	const fields = "application/x-www-form-urlencoded"
	for name, c := range map[string]call{
		"nothing": {}, "an empty form": form(fields, ""), "another field": form(fields, "item=tea&idempotency-key="+good),
		"an empty field": form(fields, "idempotency_key=&item=tea"), "JSON": form("application/json", `{"idempotency_key":"`+good+`"}`),
		"no content type": {body: "idempotency_key=" + good}, "in the query": {path: "/orders?idempotency_key=" + good},
		"multipart without a boundary": form("multipart/form-data", "idempotency_key="+good),
		"multipart that breaks off":    form("multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"idempotency_key\"\r\n\r\n"+good),
		"multipart, another boundary":  form("multipart/form-data; boundary=c", "--b\r\nContent-Disposition: form-data; name=\"idempotency_key\"\r\n\r\n"+good+"\r\n--b--\r\n"),
	} {
		r := m.send(c)
		assert.Equal(m.t, r.status, 400, "%s: status (body %s)", name, r.body)
		m.checkProblem(r, 400, "token-missing", false)
	}
	m.checkProblem(m.send(form("text/plain", "x")), 400, "token-missing", false)
	malformed := call{body: "idempotency_key=" + good, header: []string{"Content-Type", fields, "Idempotency-Key", "a,b"}}
	m.checkProblem(m.send(malformed), 400, "key-malformed", false)
	m.checkStarts(0, "without a token")
	get := m.send(call{method: "GET"})
	assert.Equal(m.t, get.status, 201, "a GET needs no token")
}
