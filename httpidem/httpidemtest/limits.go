package httpidemtest

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// testNotKept tests H11: an answer that cannot be stored never leads to a second run.
func testNotKept(t *testing.T, open Open) {
	const limit = 1000
	sizes := map[string]int{"one over": limit + 1, "far over": 300 * limit}
	for name, size := range sizes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := strings.Repeat("abcdefghi\n", size/10+1)[:size]
			wd := newWorld(t, open, Setup{Policy: retrysafe.Policy{MaxAnswer: limit}}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/reports/1")
				w.WriteHeader(http.StatusCreated)
				for rest := body; rest != ""; {
					n := min(len(rest), 700)
					_, _ = io.WriteString(w, rest[:n])
					rest = rest[n:]
				}
			})
			first := wd.send(keyedCall("k", "x"))
			assert.Equal(t, first.status, 201, "status")
			assert.True(t, first.body == body, "the first caller gets it whole: %d bytes", len(first.body))
			again := wd.send(keyedCall("k", "x"))
			wd.checkProblem(again, 409, "answer-not-kept", false)
			var p httpidem.Problem
			assert.NoError(t, json.Unmarshal([]byte(again.body), &p), "problem")
			assert.Equal(t, p.AnswerStatus, 201, "the status of what was done")
			assert.True(t, p.AnswerLength != nil && *p.AnswerLength == int64(size), "its length")
			assert.Equal(t, p.AnswerSHA256, fmt.Sprintf("%x", sha256.Sum256([]byte(body))), "its digest")
			assert.Equal(t, p.Location, "/reports/1", "where to look")
			wd.checkStarts(1, "in all")
		})
	}
	t.Run("exactly the limit", func(t *testing.T) {
		t.Parallel()
		body := strings.Repeat("x", limit)
		wd := newWorld(t, open, Setup{Policy: retrysafe.Policy{MaxAnswer: limit}}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		wd.checkReplay(wd.send(keyedCall("k", "x")), wd.send(keyedCall("k", "x")))
	})
	t.Run("a megabyte", func(t *testing.T) {
		t.Parallel()
		body := strings.Repeat("x", 1<<20)
		wd := newWorld(t, open, Setup{}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		wd.checkReplay(wd.send(keyedCall("k", "x")), wd.send(keyedCall("k", "x")))
		wd.checkStarts(1, "in all")
	})
	t.Run("flushed, within the limit", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{}, func(w http.ResponseWriter, _ *http.Request) {
			rc := http.NewResponseController(w)
			for i := range 5 {
				_, _ = fmt.Fprintf(w, "part %d\n", i)
				_ = rc.Flush()
			}
		})
		first := wd.send(keyedCall("k", "x"))
		assert.Equal(t, first.body, "part 0\npart 1\npart 2\npart 3\npart 4\n", "the first body")
		again := wd.send(keyedCall("k", "x"))
		assert.True(t, again.isReplay(), "replayed")
		assert.Equal(t, again.body, first.body, "body")
		wd.checkStarts(1, "in all")
	})
	t.Run("shorter than it says", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "cut")
		})
		r, err := wd.trySend(keyedCall("k", "x"))
		assert.True(t, err != nil || r.status >= 500, "the first caller sees that it is cut: %d %q", r.status, r.body)
		wd.waitUntil(func() bool {
			r, _ := wd.trySend(keyedCall("k", "x"))
			return r.status == 409 && (r.problemCode() == "answer-not-kept" || r.problemCode() == "outcome-unknown")
		}, "a refusal of the repeat")
		wd.checkStarts(1, "in all")
	})
	t.Run("a head that is too large", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Large", strings.Repeat("x", 70<<10))
			w.Header().Set("Location", "/reports/1")
			_, _ = io.WriteString(w, "body")
		})
		assert.Equal(t, wd.send(keyedCall("k", "x")).body, "body", "the first")
		r := wd.send(keyedCall("k", "x"))
		wd.checkProblem(r, 409, "answer-not-kept", false)
		assert.Contains(t, r.body, "/reports/1", "where to look")
		wd.checkStarts(1, "in all")
	})
}

// sendRaw sends bytes as they are. It returns status and code of the answer, or nothing if there is
// none, and whether the connection ends.
func (wd *world) sendRaw(request string, closeWrite bool) (status int, code string, closes bool) {
	wd.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(wd.base, "http://"))
	assert.NoError(wd.t, err, "dial")
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(3 * time.Minute))
	_, err = io.WriteString(conn, request)
	assert.NoError(wd.t, err, "write")
	if closeWrite {
		if c, ok := conn.(*net.TCPConn); ok {
			_ = c.CloseWrite()
		}
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, "", true
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, reply{body: string(body)}.problemCode(), resp.Close
}

// testBodies tests H12.
func testBodies(t *testing.T, open Open) {
	t.Run("too large", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{Guard: httpidem.Options{Limit: httpidem.LimitOptions{Body: 1000}}}, nil)
		r, err := wd.trySend(keyedCall("k", strings.Repeat("x", 1001)))
		assert.NoError(t, err, "request")
		wd.checkProblem(r, 413, "body-too-large", false)
		head := "POST /orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: " + longKey + "\r\n"
		status, code, closes := wd.sendRaw(head+"Transfer-Encoding: chunked\r\n\r\n3e9\r\n"+strings.Repeat("x", 1001)+"\r\n0\r\n\r\n", false)
		assert.Equal(t, fmt.Sprint(status, code), "413body-too-large", "without a length")
		assert.True(t, closes, "what is left of the body is not read")
		wd.checkStarts(0, "for bodies over the limit")
		// the server is about to close the connection with the unread body
		wd.http.CloseIdleConnections()
		assert.Equal(t, wd.send(keyedCall("k", strings.Repeat("x", 1000))).status, 201, "a body of the limit runs, under the same key")
	})
	t.Run("cut or of the wrong size", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{}, nil)
		head := "POST /orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: " + longKey + "\r\n"
		for name, rest := range map[string]string{
			"shorter than its length":   "Content-Length: 10\r\n\r\nabc",
			"no last chunk":             "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
			"a chunk that is cut":       "Transfer-Encoding: chunked\r\n\r\na\r\nabc",
			"chunks that make no sense": "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
		} {
			status, code, _ := wd.sendRaw(head+rest, true)
			assert.True(t, status == 0 || status == 400 && code == "body-incomplete", "%s: %d %s", name, status, code)
		}
		wd.checkStarts(0, "for bodies that did not arrive")
		r := wd.send(call{body: "x", header: []string{"Idempotency-Key", longKey}})
		assert.Equal(t, r.status, 201, "the key is free")
	})
	t.Run("empty and chunked", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{}, nil)
		head := "POST /orders HTTP/1.1\r\nHost: x\r\nConnection: close\r\nIdempotency-Key: " + longKey + "\r\n"
		for i, rest := range []string{"Content-Length: 0\r\n\r\n", "\r\n", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"} {
			status, _, _ := wd.sendRaw(head+rest, false)
			assert.Equal(t, status, 201, "form %d of an empty body", i)
		}
		wd.checkStarts(1, "for three forms of one empty body")
	})
}
