package httpidemtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// testOutcomes tests H9: what an answer means for the key.
func testOutcomes(t *testing.T, open Open) {
	const refuse, reexecute = retrysafe.Refuse, retrysafe.Reexecute
	type test struct {
		name    string
		status  int
		outcome string // Idempotency-Outcome
		onDoubt retrysafe.OnDoubt
		after   httpidem.After5xx
		notRun  []int
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
		{name: "403, executed", status: 403, outcome: "executed", onDoubt: refuse, want: "kept"},
		{name: "409, not executed", status: 409, outcome: "not-executed", onDoubt: refuse, want: "released"},
		{name: "409 under reexecute", status: 409, onDoubt: reexecute, want: "released"},
		{name: "423 under reexecute", status: 423, onDoubt: reexecute, want: "released"},
		{name: "404 under reexecute", status: 404, onDoubt: reexecute, want: "kept"},
		{name: "409 that is listed", status: 409, onDoubt: refuse, notRun: []int{409, 503}, want: "released"},
		{name: "503 that is listed", status: 503, onDoubt: refuse, notRun: []int{409, 503}, want: "released"},
		{name: "302 that is listed", status: 302, onDoubt: refuse, notRun: []int{302}, want: "released"},
		{name: "listed, executed", status: 503, outcome: "executed", onDoubt: refuse, notRun: []int{503}, want: "kept"},
		{name: "another is listed", status: 409, onDoubt: refuse, notRun: []int{503}, want: "kept"},
		{name: "listed, kept after 5xx", status: 503, onDoubt: reexecute, after: httpidem.After5xxKeep, notRun: []int{503}, want: "released"},
		{name: "a function may release what is listed", status: 503, onDoubt: refuse, notRun: []int{503}, keep: func(int, http.Header) retrysafe.Outcome { return retrysafe.NotDone }, want: "released"},
		{name: "5xx, executed", status: 500, outcome: "executed", onDoubt: reexecute, want: "kept"},
		{name: "a function keeps", status: 429, onDoubt: refuse, keep: func(int, http.Header) retrysafe.Outcome { return retrysafe.Done }, want: "kept"},
		{name: "a function cannot release what ran", status: 500, onDoubt: refuse, keep: func(int, http.Header) retrysafe.Outcome { return retrysafe.NotDone }, want: "doubt"},
		{name: "a function may under reexecute", status: 200, onDoubt: reexecute, keep: func(int, http.Header) retrysafe.Outcome { return retrysafe.NotDone }, want: "released"},
		{name: "a function that leaves it to the table", status: 429, onDoubt: refuse, keep: func(int, http.Header) retrysafe.Outcome { return 0 }, want: "released"},
	}
	t.Run("statuses", func(t *testing.T) {
		t.Parallel()
		testStatuses(t, open)
	})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := Setup{Policy: retrysafe.Policy{OnDoubt: tt.onDoubt}, Guard: httpidem.Options{Answer: httpidem.AnswerOptions{After5xx: tt.after, NotRun: tt.notRun, Classify: tt.keep}}}
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
			first := wd.send(keyedCall("k", "x"))
			assert.Equal(t, fmt.Sprint(first.status, first.body), fmt.Sprint(tt.status, "answer"), "the first caller gets what the origin said")
			assert.Equal(t, first.header.Get("Idempotency-Outcome"), "", "what is between origin and implementation stays there")
			second := wd.send(keyedCall("k", "x"))
			switch tt.want {
			case "kept":
				wd.checkReplay(first, second)
				wd.checkStarts(1, "in all")
			case "released":
				assert.Equal(t, second.status, tt.status, "status")
				assert.True(t, !second.isReplay(), "it ran again")
				wd.checkStarts(2, "in all")
			default:
				wd.checkProblem(second, 409, "outcome-unknown", false)
				wd.checkStarts(1, "in all")
			}
		})
	}
}

// testStatuses tests which statuses say by themselves, under Refuse, that nothing was done. A
// handler may answer any other after it has acted: it may pass on a conflict that another service
// has told it.
func testStatuses(t *testing.T, open Open) {
	wd := newWorld(t, open, Setup{}, func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		if status == 401 {
			w.Header().Set("WWW-Authenticate", "Basic")
		}
		if to := r.URL.Query().Get("to"); to != "" {
			w.Header().Set("Location", to)
		}
		w.WriteHeader(status)
	})
	for _, status := range []int{307, 308} {
		for i, to := range []string{"/thanks", "thanks", "/" + strconv.Itoa(status) + "/done", "http://shop.example/", "?a=b#c"} {
			c := keyedCall(fmt.Sprintf("to-%d-%d", status, i), "x")
			c.path = fmt.Sprint("/", status, "?to=", url.QueryEscape(to))
			before := wd.starts.Load()
			first := wd.send(c)
			want := int64(1)
			if to[0] == '?' { // the same path
				want = 2
			}
			assert.Equal(t, wd.send(c).status, first.status, "answers of %d to %s", status, to)
			assert.Equal(t, wd.starts.Load()-before, want, "starts for two requests that are answered %d to %s", status, to)
		}
	}
	for status, released := range map[int]bool{
		307: true, 308: true, 401: true, 403: true, 407: true, 408: true, 421: true, 425: true, 426: true, 428: true, 429: true, 431: true,
		200: false, 202: false, 204: false, 300: false, 301: false, 302: false, 303: false, 304: false, 400: false, 402: false, 404: false, 405: false,
		406: false, 409: false, 410: false, 411: false, 412: false, 413: false, 415: false, 417: false, 422: false, 423: false, 424: false, 451: false,
		500: false, 501: false, 502: false, 503: false, 504: false,
	} {
		c := keyedCall(fmt.Sprint("key-", status), "x")
		c.path = fmt.Sprint("/", status)
		if status == 307 || status == 308 {
			c.path += "?to=" + url.QueryEscape(c.path+"/")
		}
		before := wd.starts.Load()
		first, second := wd.send(c), wd.send(c)
		assert.Equal(t, fmt.Sprint(first.status, second.status), fmt.Sprint(status, status), "answers")
		want := int64(1)
		if released {
			want = 2
		}
		assert.Equal(t, wd.starts.Load()-before, want, "starts of the origin for two requests that are answered %d", status)
		assert.Equal(t, second.isReplay(), !released, "%d is replayed", status)
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
				first, err := wd.trySend(keyedCall("k", "x"))
				assert.True(t, err != nil || first.status >= 500, "the first caller is not told success: %d, %v", first.status, err)
				if onDoubt == retrysafe.Refuse {
					wd.waitUntil(func() bool { r, _ := wd.trySend(keyedCall("k", "x")); return r.problemCode() == "outcome-unknown" }, "the doubt")
					wd.checkStarts(1, "in all")
					return
				}
				wd.waitUntil(func() bool { r, _ := wd.trySend(keyedCall("k", "x")); return r.status == 201 }, "the second run")
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
		c := keyedCall("k", "x")
		c.ctx = ctx
		_, err := wd.trySend(c)
		assert.True(t, err != nil, "the client has hung up")
		assert.NoError(t, <-wrote, "what the handler sees of it")
		wd.waitUntil(func() bool {
			r, _ := wd.trySend(keyedCall("k", "x"))
			return r.isReplay() && r.body == "done all the same"
		}, "the answer")
		wd.checkStarts(1, "in all")
	})
}
