package guards_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// snippet: key-in-the-loop
func pay(ctx context.Context, url, body string) (status int, err error) {
	for range 3 {
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
		r.Header.Set("Idempotency-Key", rand.Text())
		resp, failed := http.DefaultClient.Do(r)
		if err = failed; err == nil {
			defer resp.Body.Close()
			return resp.StatusCode, nil
		}
	}
	return 0, err
}

// end

// TestPitfallKeyInTheLoop: each try is another payment.
func TestPitfallKeyInTheLoop(t *testing.T) {
	t.Parallel()
	s := newTill(t)
	s.cut = 2 // answers are lost
	status, err := pay(t.Context(), s.url, "10")
	assert.NoError(t, err, "pay")
	assert.Equal(t, status, 200, "the status")
	assert.Equal(t, s.keys(), 3, "payments, each with a key of its own")
}

// snippet: client-that-repeats
func payOnceOverHTTP(ctx context.Context, c *http.Client, url, key, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Idempotency-Key", key)
	return c.Do(r) // one request
}

// end

// TestPitfallClientThatRepeats: net/http sends a POST again by itself if it has an idempotency key
// and an idle connection ends. A server that ignores the key then does it twice.
func TestPitfallClientThatRepeats(t *testing.T) {
	t.Parallel()
	s := newTill(t)
	c := &http.Client{Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	for i, want := range []int{1, 3} {
		s.cut = i // the second payment is made, and the connection ends
		resp, err := payOnceOverHTTP(t.Context(), c, s.url, fmt.Sprint("key ", i), "10")
		assert.NoError(t, err, "pay")
		_, _ = io.Copy(io.Discard, resp.Body) // so that the connection can be reused
		_ = resp.Body.Close()
		assert.Equal(t, s.payments(), want, "payments after %d calls", i+1)
	}
}

// answers is the middleware of the next mistakes: it stores answers by key.
type answers struct {
	mu  sync.Mutex
	all map[string][]byte
	do  func(w io.Writer, r *http.Request, body []byte)
}

func (a *answers) ask(user, key, body string) string {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(body))
	r.Header.Set("X-User", user)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	a.ServeHTTP(w, r)
	return w.Body.String()
}

// snippet: the-key-and-nothing-else
func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	answer, ok := a.all[key]
	if !ok {
		var b bytes.Buffer
		body, _ := io.ReadAll(r.Body)
		a.do(&b, r, body)
		answer = b.Bytes()
		a.all[key] = answer
	}
	_, _ = w.Write(answer)
}

// end

func newAnswers() *answers {
	return &answers{all: map[string][]byte{}, do: func(w io.Writer, r *http.Request, body []byte) {
		_, _ = fmt.Fprintf(w, "%s paid %s", r.Header.Get("X-User"), body)
	}}
}

// TestPitfallKeyWithoutTenant: a caller that sends another caller's key gets that caller's answer.
func TestPitfallKeyWithoutTenant(t *testing.T) {
	t.Parallel()
	a := newAnswers()
	assert.Equal(t, a.ask("ann", "1", "10"), "ann paid 10", "ann")
	assert.Equal(t, a.ask("bob", "1", "10"), "ann paid 10", "bob, who counts his payments as ann does")
}

// TestPitfallKeyWithoutFingerprint: a key that is used again for another request gets the answer
// that it was done.
func TestPitfallKeyWithoutFingerprint(t *testing.T) {
	t.Parallel()
	a := newAnswers()
	assert.Equal(t, a.ask("ann", "1", "10"), "ann paid 10", "the first")
	assert.Equal(t, a.ask("ann", "1", "99"), "ann paid 10", "another payment under the same key")
}

// TestPitfallNoKeyIsAKey: all requests without a key are duplicates of one another.
func TestPitfallNoKeyIsAKey(t *testing.T) {
	t.Parallel()
	a := newAnswers()
	assert.Equal(t, a.ask("ann", "", "10"), "ann paid 10", "one without a key")
	assert.Equal(t, a.ask("bob", "", "50"), "ann paid 10", "another one without a key")
}

// claims are keys that are in progress or done.
type claims struct{ all sync.Map }

// snippet: release-on-error
func (c *claims) once(key string, charge func() error) error {
	if _, taken := c.all.LoadOrStore(key, true); taken {
		return nil // done, or another call does it
	}
	err := charge()
	if err != nil {
		c.all.Delete(key) // it failed: let the client try again
	}
	return err
}

// end

// TestPitfallReleaseOnError: an error does not mean that nothing has happened.
func TestPitfallReleaseOnError(t *testing.T) {
	t.Parallel()
	s := newTill(t)
	s.cut = 1
	c, charge := new(claims), func() error {
		resp, err := http.Post(s.url, "text/plain", strings.NewReader("10"))
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}
	assert.True(t, c.once("key", charge) != nil, "the answer of the bank is lost")
	assert.NoError(t, c.once("key", charge), "the retry")
	assert.Equal(t, s.payments(), 2, "payments under one key")
}

// TestPitfallOneProcess: one process does not know what another one remembers.
func TestPitfallOneProcess(t *testing.T) {
	t.Parallel()
	charges := 0
	for _, process := range []*claims{new(claims), new(claims)} {
		// Two instances behind one load balancer.
		assert.NoError(t, process.once("key", func() error { charges++; return nil }), "charge")
	}
	assert.Equal(t, charges, 2, "charges under one key")
}

// snippet: key-of-all-that-was-sent
func keyOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// end

// TestPitfallKeyOfAllThatWasSent: a double click differs in its time, its place, and the order of
// its fields.
func TestPitfallKeyOfAllThatWasSent(t *testing.T) {
	t.Parallel()
	keys := map[string]bool{}
	for _, body := range []string{
		// two clicks
		`{"item":"book","n":1,"at":"12:00:00.100"}`, `{"item":"book","n":1,"at":"12:00:00.300"}`,
		`{"n":1,"item":"book","at":"12:00:00.100"}`, // another version of the client
	} {
		keys[keyOf([]byte(body))] = true
	}
	assert.Equal(t, len(keys), 3, "keys of one order")
}

// till takes payments, and loses some of its answers.
type till struct {
	url string
	cut int // answers to lose

	mu   sync.Mutex
	all  int
	seen map[string]bool
}

func newTill(t *testing.T) *till {
	t.Helper()
	s := &till{seen: map[string]bool{}}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all++
		s.seen[r.Header.Get("Idempotency-Key")] = true
		if s.cut > 0 {
			s.cut--
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *till) payments() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

func (s *till) keys() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen)
}
