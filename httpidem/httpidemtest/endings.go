package httpidemtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// testEndings tests H9: what an answer means for the key.
func testEndings(t *testing.T, open Open) {
	const refuse, reexecute = retrysafe.Refuse, retrysafe.Reexecute
	type test struct {
		name    string
		status  int
		outcome string // Idempotency-Outcome
		onDoubt retrysafe.OnDoubt
		after   httpidem.After5xx
		keep    func(int, http.Header) retrysafe.Outcome
		want    string // kept, released or doubt
	}
	tests := []test{
		{name: "ok", status: 200, onDoubt: refuse, want: "kept"},
		{name: "bad request", status: 400, onDoubt: refuse, want: "kept"},
		{name: "unprocessable", status: 422, onDoubt: refuse, want: "kept"},
		{name: "5xx under refuse", status: 500, onDoubt: refuse, want: "kept"},
		{name: "503 under refuse", status: 503, onDoubt: refuse, want: "kept"},
		{name: "5xx under reexecute", status: 500, onDoubt: reexecute, want: "released"},
		{name: "5xx kept under reexecute", status: 500, onDoubt: reexecute, after: httpidem.After5xxKeep, want: "kept"},
		{name: "5xx released under reexecute", status: 502, onDoubt: reexecute, after: httpidem.After5xxRelease, want: "released"},
		{name: "the origin says not executed", status: 500, outcome: "not-executed", onDoubt: refuse, want: "released"},
		{name: "200, not executed", status: 200, outcome: "not-executed", onDoubt: refuse, want: "released"},
		{name: "409, executed", status: 409, outcome: "executed", onDoubt: refuse, want: "kept"},
		{name: "5xx, executed", status: 500, outcome: "executed", onDoubt: reexecute, want: "kept"},
		{name: "a function keeps", status: 409, onDoubt: refuse, keep: func(int, http.Header) retrysafe.Outcome { return retrysafe.Done }, want: "kept"},
		{name: "a function cannot release what ran", status: 500, onDoubt: refuse, keep: func(int, http.Header) retrysafe.Outcome { return retrysafe.NotDone }, want: "doubt"},
		{name: "a function may under reexecute", status: 200, onDoubt: reexecute, keep: func(int, http.Header) retrysafe.Outcome { return retrysafe.NotDone }, want: "released"},
		{name: "a function that leaves it to the table", status: 429, onDoubt: refuse, keep: func(int, http.Header) retrysafe.Outcome { return 0 }, want: "released"},
	}
	for _, status := range []int{401, 403, 407, 408, 409, 421, 423, 425, 429} {
		tests = append(tests, test{name: fmt.Sprint(status), status: status, onDoubt: refuse, want: "released"})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := Setup{Policy: retrysafe.Policy{OnDoubt: tt.onDoubt}, Guard: httpidem.Options{After5xx: tt.after, Classify: tt.keep}}
			wd := newWorld(t, open, s, func(w http.ResponseWriter, _ *http.Request) {
				if tt.outcome != "" {
					w.Header().Set("Idempotency-Outcome", tt.outcome)
				}
				if tt.status == 401 {
					w.Header().Set("WWW-Authenticate", "Basic")
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, "answer")
			})
			first := wd.do(keyed("k", "x"))
			assert.Equal(t, fmt.Sprint(first.status, first.body), fmt.Sprint(tt.status, "answer"), "the first caller gets what the origin said")
			assert.Equal(t, first.header.Get("Idempotency-Outcome"), "", "what is between origin and implementation stays there")
			second := wd.do(keyed("k", "x"))
			switch tt.want {
			case "kept":
				wd.same(first, second)
				wd.started(1, "in all")
			case "released":
				assert.Equal(t, second.status, tt.status, "status")
				assert.True(t, !second.replayed(), "it ran again")
				wd.started(2, "in all")
			default:
				wd.problem(second, 409, "outcome-unknown", false)
				wd.started(1, "in all")
			}
		})
	}
}

// testCrashes tests H10.
func testCrashes(t *testing.T, open Open) {
	crashes := map[string]func(){
		"panic":     func() { panic("the origin is broken") },
		"abort":     func() { panic(http.ErrAbortHandler) },
		"goexit":    runtime.Goexit,
		"bad index": func() { none := []int{}; none[len(none)] = 1 },
	}
	for name, crash := range crashes {
		for _, onDoubt := range []retrysafe.OnDoubt{retrysafe.Refuse, retrysafe.Reexecute} {
			t.Run(fmt.Sprintf("%s, policy %d", name, onDoubt), func(t *testing.T) {
				t.Parallel()
				const lease = 2 * time.Second
				begun, wd := time.Now(), (*world)(nil)
				wd = newWorld(t, open, Setup{Policy: retrysafe.Policy{OnDoubt: onDoubt, Lease: lease}}, func(w http.ResponseWriter, _ *http.Request) {
					if wd.starts.Load() == 1 {
						crash()
					}
					w.WriteHeader(http.StatusCreated)
				})
				first, err := wd.try(keyed("k", "x"))
				assert.True(t, err != nil || first.status >= 500, "the first caller is not told success: %d, %v", first.status, err)
				if onDoubt == retrysafe.Refuse {
					wd.eventually(func() bool { r, _ := wd.try(keyed("k", "x")); return r.code() == "outcome-unknown" }, "the doubt")
					wd.started(1, "in all")
					return
				}
				wd.eventually(func() bool { r, _ := wd.try(keyed("k", "x")); return r.status == 201 }, "the second run")
				// A slow machine may lose the lease of the second run too.
				n := wd.starts.Load()
				assert.True(t, n == 2 || n > 2 && time.Since(begun) >= time.Duration(n-1)*lease, "starts of the origin in all: %d", n)
			})
		}
	}
	t.Run("a client that hangs up does not stop the work", func(t *testing.T) {
		t.Parallel()
		entered, hungUp := make(chan struct{}), make(chan struct{})
		wrote := make(chan error, 1)
		wd := newWorld(t, open, Setup{}, func(w http.ResponseWriter, r *http.Request) {
			close(entered)
			<-hungUp
			// Long enough to notice the end of a connection, if the implementation passed it on.
			select {
			case <-r.Context().Done():
			case <-time.After(300 * time.Millisecond):
			}
			w.WriteHeader(http.StatusCreated)
			_, err := io.WriteString(w, "done all the same")
			if err == nil {
				err = r.Context().Err()
			}
			wrote <- err
		})
		ctx, hangUp := context.WithCancel(context.Background())
		go func() {
			<-entered
			hangUp()
			close(hungUp)
		}()
		c := keyed("k", "x")
		c.ctx = ctx
		_, err := wd.try(c)
		assert.True(t, err != nil, "the client has hung up")
		assert.NoError(t, <-wrote, "what the handler sees of it")
		wd.eventually(func() bool { r, _ := wd.try(keyed("k", "x")); return r.replayed() && r.body == "done all the same" }, "the answer")
		wd.started(1, "in all")
	})
}
