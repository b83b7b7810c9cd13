package check_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/check"
)

// newWebhooks listens for webhooks until the test ends.
func newWebhooks(t *testing.T) *check.Webhooks {
	t.Helper()
	w, err := check.ListenWebhooks("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// sendRequest sends a request and returns its status.
func sendRequest(t *testing.T, method, to, body string, header ...string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, to, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Errorf("%s %s: %v", method, to, err)
		return 0
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Errorf("%s %s: %v", method, to, err)
	}
	return response.StatusCode
}

// assertCount fails the test unless o has counted want.
func assertCount(t *testing.T, o check.Oracle, want int64) {
	t.Helper()
	if got, err := o.Count(t.Context()); err != nil || got != want {
		t.Errorf("%s: %d, %v; want %d", o, got, err, want)
	}
}

func TestWebhooksCountsPosts(t *testing.T) {
	t.Parallel()
	w := newWebhooks(t)
	if !strings.HasPrefix(w.URL(), "http://127.0.0.1:") || w.String() != "webhooks to "+w.URL() {
		t.Errorf("it listens on %s, %s", w.URL(), w)
	}
	assertCount(t, w, 0)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if status := sendRequest(t, http.MethodPost, w.URL()+"/any/path", `{"id": 1}`); status != http.StatusNoContent {
				t.Errorf("a POST: %d", status)
			}
		})
	}
	all.Wait()
	if status := sendRequest(t, http.MethodGet, w.URL(), ""); status != http.StatusMethodNotAllowed {
		t.Errorf("a GET: %d", status)
	}
	if status := sendRequest(t, http.MethodPost, w.URL(), strings.Repeat("a", 1<<20+1)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a large POST: %d", status)
	}
	assertCount(t, w, 20)
}

func TestWebhooksOfOneID(t *testing.T) {
	t.Parallel()
	w := newWebhooks(t)
	if err := w.Distinct("$.event.id"); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{`{"event": {"id": 1}}`, `{"event": {"id": 1}}`, `{"event": {"id": "1"}}`, `{"event": {"id": 2}}`} {
		sendRequest(t, http.MethodPost, w.URL(), body)
	}
	assertCount(t, w, 3)
	sendRequest(t, http.MethodPost, w.URL(), `{"id": 3}`)
	if n, err := w.Count(t.Context()); err == nil || !strings.Contains(err.Error(), "event") {
		t.Errorf("a webhook without id: %d, %v", n, err)
	}

	w = newWebhooks(t)
	if err := w.Distinct("Webhook-Id"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b", "a"} {
		sendRequest(t, http.MethodPost, w.URL(), "", "Webhook-Id", id)
	}
	assertCount(t, w, 2)
	for _, wrong := range []string{"", "$["} {
		if err := w.Distinct(wrong); err == nil {
			t.Errorf("ids by %q were taken", wrong)
		}
	}
}

func TestListenersAddress(t *testing.T) {
	t.Parallel()
	addresses := map[string]string{
		"":          "http://127.0.0.1:",
		":0":        "http://127.0.0.1:",
		"0":         "http://127.0.0.1:",
		"0.0.0.0:0": "http://localhost:",
	}
	if six, err := net.Listen("tcp", "[::1]:0"); err == nil { // a machine may have no IPv6
		_ = six.Close()
		addresses["[::1]:0"] = "http://[::1]:"
	}
	for addr, want := range addresses {
		w, err := check.ListenWebhooks(addr)
		if err != nil {
			t.Errorf("%q: %v", addr, err)
			continue
		}
		if !strings.HasPrefix(w.URL(), want) {
			t.Errorf("%q: %s", addr, w.URL())
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, addr := range []string{"host:port", "127.0.0.1:99999", "a:b:c"} {
		if w, err := check.ListenWebhooks(addr); err == nil {
			t.Errorf("%q listens on %s", addr, w.URL())
		}
	}
}

func TestCloseEndsListeners(t *testing.T) {
	t.Parallel()
	w, err := check.ListenWebhooks("")
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(w.URL(), "http://")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// half a request
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open")
	}
	if other, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", address); err == nil {
		other.Close()
		t.Error("it still listens")
	}
	assertCount(t, w, 0)
}
