package admin

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/stores/memstore"
)

// timed records the time limits of a request.
type timed struct {
	*httptest.ResponseRecorder
	read, write []time.Time
}

func (w *timed) SetReadDeadline(t time.Time) error  { w.read = append(w.read, t); return nil }
func (w *timed) SetWriteDeadline(t time.Time) error { w.write = append(w.write, t); return nil }

func bare(t *testing.T) *Server {
	t.Helper()
	records, err := NewRecords(memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(records, &Options{Namespace: "shop", Tokens: Tokens{sha256.Sum256([]byte("t")): {Name: "vera", Roles: View}}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func request(ctx context.Context, method, path, body string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, method, "http://127.0.0.1:9090"+prefix+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("Authorization", "Bearer t")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// TestSlowClients: a body has to come, and an answer has to be taken, within a time, whatever
// server serves. Work that is let in may take longer than a body.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := bare(t)
		for name, c := range map[string]struct {
			r       *http.Request
			cleared bool
		}{
			"let in":     {request(t.Context(), "POST", "/quotas/find", `{"tenant":"x"}`), true},
			"not let in": {request(t.Context(), "POST", "/records/x/resolve", `{}`), false},
			"no path":    {request(t.Context(), "POST", "/x", `{}`), false},
		} {
			w := &timed{ResponseRecorder: httptest.NewRecorder()}
			s.ServeHTTP(w, c.r)
			if len(w.read) == 0 || !w.read[0].Equal(time.Now().Add(bodyTime)) {
				t.Errorf("%s: time limits of the body: %v", name, w.read)
			}
			if n := len(w.read); c.cleared != w.read[n-1].IsZero() {
				t.Errorf("%s: time limits of the body: %v", name, w.read)
			}
			if n := len(w.write); n == 0 || !w.write[n-1].Equal(time.Now().Add(answerTime)) {
				t.Errorf("%s: time limits of the answer: %v", name, w.write)
			}
		}
	})
}

// TestTurns: callers that are let in wait for a turn, and those that are not take none.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := bare(t)
		for range mostAtOnce {
			if err := s.slots.acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ask := func(token string) int {
			r := request(t.Context(), "GET", "/records", "")
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			return w.Code
		}
		begun := time.Now()
		if got := ask("x"); got != 401 || time.Since(begun) != 0 {
			t.Errorf("a caller that is not let in, while others are busy: %d after %v", got, time.Since(begun))
		}
		if got := ask("t"); got != 503 || time.Since(begun) != slotTime {
			t.Errorf("one caller too many: %d after %v", got, time.Since(begun))
		}
		s.slots.release()
		if got := ask("t"); got != 200 || len(s.slots) != mostAtOnce-1 {
			t.Errorf("when there is room again: %d, %d turns are taken", got, len(s.slots))
		}
	})
}
