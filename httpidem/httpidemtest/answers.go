package httpidemtest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// testReplay tests H4: a duplicate gets the first status, end-to-end fields and body, byte for
// byte.
func testReplay(t *testing.T, open Open) {
	t.Run("byte for byte", func(t *testing.T) {
		t.Parallel()
		binary := string([]byte{0, 1, 255, '\r', '\n', '\r', '\n'}) + strings.Repeat("x", 5000)
		wd := newWorld(t, open, Setup{}, func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h["X-Many"] = []string{"one", "two", ""}
			h.Set("Content-Type", "application/x-test; a=b")
			h.Set("ETag", `"v1"`)
			h.Set("Set-Cookie", "session=secret")
			h.Set("Alt-Svc", "h3=\":443\"")
			h.Set("Age", "10")
			h.Set("Keep-Alive", "timeout=5")
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, binary)
		})
		first := wd.send(keyedCall("k", "x"))
		assert.Equal(t, first.body, binary, "the first body")
		assert.Equal(t, first.header.Get("Set-Cookie"), "session=secret", "the first caller gets its cookie")
		again := wd.send(keyedCall("k", "x"))
		assert.Equal(t, again.body, first.body, "body")
		assert.Equal(t, again.status, 202, "status")
		assert.True(t, again.isReplay(), "it says that it is replayed")
		for _, name := range []string{"X-Many", "Content-Type", "Etag", "Date", "Content-Length"} {
			assert.Equal(t, again.header[name], first.header[name], "field %s", name)
		}
		for _, name := range []string{"Set-Cookie", "Alt-Svc", "Age", "Keep-Alive"} {
			assert.Equal(t, again.header[name], nil, "field %s", name)
		}
		wd.checkStarts(1, "in all")
	})
	t.Run("kinds of answers", func(t *testing.T) {
		t.Parallel()
		for name, handler := range map[string]origin{
			"nothing at all": func(http.ResponseWriter, *http.Request) {},
			"no content":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
			"redirect":       func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/orders/1", http.StatusSeeOther) },
			"sniffed type":   func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html><p>x</p></html>") },
			"no type": func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = nil
				_, _ = io.WriteString(w, "{}")
			},
			"odd status":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(299) },
			"client error": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such item", http.StatusNotFound) },
			"many small writes": func(w http.ResponseWriter, _ *http.Request) {
				for i := range 3000 {
					_, _ = fmt.Fprintf(w, "%d\n", i)
				}
			},
			"fields after the head": func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(200)
				w.Header().Set("X-Too-Late", "1")
				w.WriteHeader(500)
			},
		} {
			wd := newWorld(t, open, Setup{}, handler)
			first := wd.send(keyedCall("k", "x"))
			assert.True(t, !first.isReplay(), "%s: the first is not replayed", name)
			assert.Equal(t, first.header.Get("X-Too-Late"), "", "%s", name)
			wd.checkReplay(first, wd.send(keyedCall("k", "x")))
			wd.checkStarts(1, name)
		}
	})
	t.Run("cookies where they are kept", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{Guard: httpidem.Options{Answer: httpidem.AnswerOptions{KeepCookies: true}}}, func(w http.ResponseWriter, _ *http.Request) {
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		})
		first := wd.send(keyedCall("k", "x"))
		assert.Equal(t, wd.send(keyedCall("k", "x")).header["Set-Cookie"], first.header["Set-Cookie"], "Set-Cookie")
	})
	t.Run("the origin is asked for an answer that everybody can read", func(t *testing.T) {
		t.Parallel()
		asked := make(chan string, 2)
		wd := newWorld(t, open, Setup{}, func(_ http.ResponseWriter, r *http.Request) { asked <- r.Header.Get("Accept-Encoding") })
		wd.send(keyedCall("k", "x", "Accept-Encoding", "br"))
		assert.Equal(t, <-asked, "identity", "Accept-Encoding of a guarded request")
	})
}

// testInProgress tests H5.
func testInProgress(t *testing.T, open Open) {
	t.Run("reject", func(t *testing.T) {
		t.Parallel()
		hold, entered := make(chan struct{}), make(chan struct{})
		wd := newWorld(t, open, Setup{}, func(w http.ResponseWriter, _ *http.Request) {
			close(entered)
			<-hold
			w.WriteHeader(http.StatusCreated)
		})
		first := make(chan reply, 1)
		go func() {
			r, _ := wd.trySend(keyedCall("k", "x"))
			first <- r
		}()
		<-entered
		seconds := map[string]bool{}
		for range 20 {
			r := wd.send(keyedCall("k", "x"))
			wd.checkProblem(r, 409, "in-progress", true)
			seconds[r.header.Get("Retry-After")] = true
		}
		assert.True(t, len(seconds) > 1, "repeats are spread over the seconds: %v", seconds)
		close(hold)
		assert.Equal(t, (<-first).status, 201, "the first")
		assert.True(t, wd.send(keyedCall("k", "x")).isReplay(), "afterwards it is replayed")
		wd.checkStarts(1, "in all")
	})
	t.Run("fifty at once that wait", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{Policy: retrysafe.Policy{Wait: 2 * time.Minute}}, nil)
		replies, errs := make([]reply, 50), make([]error, 50)
		var wg sync.WaitGroup
		for i := range replies {
			wg.Go(func() { replies[i], errs[i] = wd.trySend(keyedCall("k", "x")) })
		}
		wg.Wait()
		assert.NoError(t, errors.Join(errs...), "requests")
		for i := range replies {
			assert.Equal(t, replies[i].status, 201, "status (body %s)", replies[i].body)
			assert.Equal(t, replies[i].body, replies[0].body, "body")
		}
		wd.checkStarts(1, "in all")
	})
	t.Run("waiters of an attempt that fails", func(t *testing.T) {
		t.Parallel()
		pause := 300 * time.Millisecond
		failed := countFailedWaiters(t, open, pause)
		for ; failed == 0 && pause < 10*time.Second; failed = countFailedWaiters(t, open, pause) {
			pause *= 2 // none may have come in time
		}
		assert.True(t, failed > 0, "no waiter was told that the attempt failed")
	})
	t.Run("patience", func(t *testing.T) {
		t.Parallel()
		hold, entered := make(chan struct{}), make(chan struct{})
		wd := newWorld(t, open, Setup{Policy: retrysafe.Policy{Wait: 200 * time.Millisecond}}, func(http.ResponseWriter, *http.Request) {
			close(entered)
			<-hold
		})
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = wd.trySend(keyedCall("k", "x"))
		}()
		<-entered
		wd.checkProblem(wd.send(keyedCall("k", "x")), 409, "in-progress", true)
		close(hold)
		<-done
	})
}

// countFailedWaiters lets an attempt fail that several duplicates had a pause to come to. It
// returns how many got its failure.
func countFailedWaiters(t *testing.T, open Open, pause time.Duration) (failed int) {
	t.Helper()
	hold, entered := make(chan struct{}), make(chan struct{}, 10)
	wd := newWorld(t, open, Setup{Policy: retrysafe.Policy{Wait: 2 * time.Minute}}, func(w http.ResponseWriter, _ *http.Request) {
		entered <- struct{}{}
		<-hold
		w.WriteHeader(http.StatusTooManyRequests)
	})
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = wd.trySend(keyedCall("k", "x")) })
	<-entered
	replies := make([]reply, 5)
	for i := range replies {
		wg.Go(func() { replies[i], _ = wd.trySend(keyedCall("k", "x")) })
	}
	time.Sleep(pause) // until they wait; a later duplicate would get the same from its own attempt
	close(hold)
	wg.Wait()
	for _, r := range replies {
		if r.status == 409 {
			wd.checkProblem(r, 409, "attempt-failed", true)
			failed++
		}
	}
	assert.Equal(t, wd.starts.Load(), int64(6-failed), "starts when %d were told that the attempt failed: waiters do not execute", failed)
	return failed
}

// testMismatch tests H6: the mismatch is answered before in progress, in doubt and completed.
func testMismatch(t *testing.T, open Open) {
	other := map[string]func(c *call){
		"body":         func(c *call) { c.body = `{"cents":900}` },
		"query":        func(c *call) { c.path += "?x=2" },
		"content type": func(c *call) { c.header = append(c.header, "Content-Type", "text/csv") },
	}
	first := keyedCall("k", `{"cents":100}`)
	first.path = "/orders?x=1"
	for name, change := range other {
		t.Run("completed, other "+name, func(t *testing.T) {
			t.Parallel()
			wd := newWorld(t, open, Setup{}, nil)
			wd.send(first)
			c := first
			c.header = append([]string{}, first.header...)
			change(&c)
			wd.checkProblem(wd.send(c), 422, "payload-mismatch", false)
			wd.checkStarts(1, "in all")
		})
	}
	changed := first
	changed.body = `{"cents":900}`
	t.Run("in doubt", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{}, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		_, _ = wd.trySend(first)
		wd.waitUntil(func() bool { r, _ := wd.trySend(first); return r.problemCode() == "outcome-unknown" }, "the doubt")
		wd.checkProblem(wd.send(changed), 422, "payload-mismatch", false)
	})
	t.Run("in progress", func(t *testing.T) {
		t.Parallel()
		hold, entered := make(chan struct{}), make(chan struct{})
		wd := newWorld(t, open, Setup{}, func(http.ResponseWriter, *http.Request) { close(entered); <-hold })
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = wd.trySend(first)
		}()
		<-entered
		wd.checkProblem(wd.send(changed), 422, "payload-mismatch", false)
		close(hold)
		<-done
	})
	t.Run("released", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{}, nil)
		wd2 := newWorld(t, open, Setup{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
		assert.Equal(t, wd2.send(first).status, 401, "first")
		assert.Equal(t, wd2.send(changed).status, 401, "a corrected request may use the key of one that was not run")
		wd.send(first)
	})
	t.Run("what does not matter", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{}, nil)
		a := keyedCall("m", "--AAA\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n1\r\n--AAA--\r\n", "Content-Type", "multipart/form-data; boundary=AAA")
		b := keyedCall("m", "--BBB\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n1\r\n--BBB--\r\n", "Content-Type", "multipart/form-data; boundary=BBB")
		c := keyedCall("m", "--BBB\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n2\r\n--BBB--\r\n", "Content-Type", "multipart/form-data; boundary=BBB")
		wd.checkReplay(wd.send(a), wd.send(b))
		wd.checkProblem(wd.send(c), 422, "payload-mismatch", false)
		d, e := keyedCall("p", "x", "Content-Type", "text/plain; charset=utf-8"), keyedCall("p", "x", "Content-Type", "TEXT/plain", "X-Trace", "2")
		wd.checkReplay(wd.send(d), wd.send(e))
	})
}

// testInDoubt tests H7.
func testInDoubt(t *testing.T, open Open) {
	wd := newWorld(t, open, Setup{}, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, _ = wd.trySend(keyedCall("k", "x"))
	wd.waitUntil(func() bool { r, _ := wd.trySend(keyedCall("k", "x")); return r.problemCode() != "in-progress" }, "the end of the attempt")
	for range 3 {
		wd.checkProblem(wd.send(keyedCall("k", "x")), 409, "outcome-unknown", false)
	}
	wd.checkStarts(1, "in all")
}

// testDuplicates tests H8.
func testDuplicates(t *testing.T, open Open) {
	t.Run("reject", func(t *testing.T) {
		t.Parallel()
		hold, entered := make(chan struct{}), make(chan struct{})
		wd := newWorld(t, open, Setup{Policy: retrysafe.Policy{Duplicate: retrysafe.Reject}}, func(http.ResponseWriter, *http.Request) { close(entered); <-hold })
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = wd.trySend(keyedCall("k", "x"))
		}()
		<-entered
		r := wd.send(keyedCall("k", "x"))
		wd.checkProblem(r, 409, "in-progress", true)
		assert.Contains(t, r.body, `"error_code":201`, "the code of a repeat that is in progress")
		close(hold)
		<-done
		r = wd.send(keyedCall("k", "x"))
		wd.checkProblem(r, 409, "already-done", false)
		assert.Contains(t, r.body, `"error_code":202`, "the code of a repeat that is done")
		wd.checkStarts(1, "in all")
	})
	t.Run("succeed", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{
			Policy: retrysafe.Policy{Duplicate: retrysafe.Succeed},
			Guard:  httpidem.Options{Answer: httpidem.AnswerOptions{Succeed: httpidem.StaticAnswer{Status: 202, ContentType: "text/x-ok", Body: []byte("success")}}},
		}, nil)
		assert.Equal(t, wd.send(keyedCall("k", "x")).status, 201, "the first")
		r := wd.send(keyedCall("k", "x"))
		assert.Equal(t, r.status, 202, "status")
		assert.Equal(t, r.body, "success", "body")
		assert.Equal(t, r.header.Get("Content-Type"), "text/x-ok", "content type")
		wd.checkStarts(1, "in all")
		plain := newWorld(t, open, Setup{Policy: retrysafe.Policy{Duplicate: retrysafe.Succeed}}, nil)
		plain.send(keyedCall("k", "x"))
		r = plain.send(keyedCall("k", "x"))
		assert.Equal(t, fmt.Sprint(r.status, r.body), "200", "plain success by default")
	})
}
