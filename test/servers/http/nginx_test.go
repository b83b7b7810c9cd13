package http_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// answerOrders answers 201 with a body that differs for each run.
func answerOrders() http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h := w.Header()
		h.Set("Content-Type", "application/json; charset=utf-8")
		h.Set("Location", "/orders/1")
		h.Add("X-Twice", "b")
		h.Add("X-Twice", "a")
		h.Set("Set-Cookie", "session=secret")
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"run":%d,"got":%q,"attempt":%q,"fence":%q,"uri":%q}`, n.Add(1), body,
			r.Header["Idempotency-Attempt"], r.Header["Idempotency-Fence"], r.RequestURI)
	}
}

// TestNginxReplays: a duplicate gets the first answer, byte for byte, from either worker, and the
// service sees one request.
func TestNginxReplays(t *testing.T) {
	t.Parallel()
	f := startNginx(t, nginxSetup{origin: answerOrders()})
	first := f.sendRequest("POST", "/a//b%2Fc/../orders?x=1&y=%20", "order\x00", "Idempotency-Key", `"k"`, "Authorization", "Bearer opaque",
		"Idempotency-Attempt", "7", "Idempotency-Fence", "7")
	assert.Equal(t, first.status, 201, "first (%s)", first.body)
	assert.Contains(t, first.body, `"attempt":["1"],"fence":["1`, "what the service gets, and nothing of the client's own")
	assert.Contains(t, first.body, `"uri":"/a//b%2Fc/../orders?x=1&y=%20"`, "the path as sent")
	assert.Equal(t, first.header.Get("Set-Cookie"), "session=secret", "the first client's cookie")
	for range 6 {
		again := f.sendRequest("POST", "/a//b%2Fc/../orders?x=1&y=%20", "order\x00", "Idempotency-Key", "k", "Authorization", "Bearer opaque")
		assert.Equal(t, again.header.Get("Idempotency-Replayed"), "true", "it says that it is replayed")
		assert.Equal(t, again.header["Set-Cookie"], nil, "cookies")
		again.header.Del("Idempotency-Replayed")
		first.header.Del("Set-Cookie")
		assert.Equal(t, again, first, "the repeat")
	}
	f.checkStarts(1, "one key")
	assert.Equal(t, f.postOrder("k", "order").status, 201, "another path is another key")
	assert.Equal(t, f.postOrder("k", "order", "Content-Type", "text/plain").status, 422, "another media type")
	f.checkStarts(2, "two operations")
}

// TestNginxAnswersOfAllKinds: the client and its duplicates get what the service answers.
func TestNginxAnswersOfAllKinds(t *testing.T) {
	t.Parallel()
	for name, origin := range map[string]http.HandlerFunc{
		"no content": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"no type": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(w, "x")
		},
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"failure": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", http.StatusInternalServerError) },
		"redirect": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/x")
			w.WriteHeader(http.StatusSeeOther)
		},
		"strange": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(299)
			_, _ = io.WriteString(w, "\x00\xff\r\n\r\n")
		},
		"bad gateway of its own": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "inner", http.StatusBadGateway) },
		"parts": func(w http.ResponseWriter, _ *http.Request) {
			for range 20 {
				_, _ = io.WriteString(w, strings.Repeat("part", 2000))
				_ = http.NewResponseController(w).Flush()
			}
		},
		"no date": func(w http.ResponseWriter, _ *http.Request) { w.Header()["Date"] = nil; _, _ = io.WriteString(w, "x") },
		"redirect inside": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Accel-Redirect", "/transfers")
			_, _ = io.WriteString(w, "x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startNginx(t, nginxSetup{origin: origin})
			first, again := f.postOrder("k", "order"), f.postOrder("k", "order")
			assert.Equal(t, again.header.Get("Idempotency-Replayed"), "true", "it is replayed (%d %s)", first.status, first.body)
			again.header.Del("Idempotency-Replayed")
			assert.Equal(t, again, first, "the repeat")
			f.checkStarts(1, name)
			_, engine := f.records()
			assert.Contains(t, string(f.onlyRecord(engine).Answer.Body), "\r\nDate: ", "the stored answer, whose date may not be that of the repeat")
		})
	}
}

// TestNginxKeys is H1 and H2.
func TestNginxKeys(t *testing.T) {
	t.Parallel()
	f := startNginx(t, nginxSetup{origin: answerOrders(), guard: `key_header = "X-Key",`, replace: map[string]string{
		`transfers = guard:with {duplicate = "reject"}`: `transfers = guard:with {key = "required"}`,
	}})
	credential := []string{"Authorization", "Bearer opaque"}
	for _, value := range []string{
		"", `"`, `"a`, `"a"b`, `"a", "b"`, `"a";`, `"a";A`, `"a";a=`, `"a";a=1.`, `"a";a="x`, `"\a"`, `""`, "a b", "a,b", "a;b", `a"b`, `a\b`, "a\xffb", "\"\xff\"",
		strings.Repeat("k", 256), `"` + strings.Repeat("k", 256) + `"`,
	} {
		r := f.sendRequest("POST", "/orders", "x", append(credential, "X-Key", value)...)
		f.checkProblem(r, 400, "key-malformed", false)
		assert.True(t, len(value) < 20 || !strings.Contains(r.body, value), "the answer does not show the value %q", value)
	}
	f.checkProblem(f.sendRequest("PATCH", "/orders", "x", append(credential, "X-Key", "a", "X-Key", "b")...), 400, "key-malformed", false)
	f.checkProblem(f.sendRequest("POST", "/orders", "x", "X-Key", "short"), 400, "key-too-short", false)
	f.checkProblem(f.sendRequest("POST", "/transfers", "x", credential...), 400, "key-missing", false)
	f.checkStarts(0, "malformed keys")
	same := []string{`same`, `"same"`, `"same";a=1;b="x;";c=?1;d=:YQ==:;*e;f=-1.5;g=a/b`, ` same `}
	for _, value := range same {
		assert.Equal(t, f.sendRequest("POST", "/orders", "x", append(credential, "X-Key", value)...).status, 201, "%q", value)
	}
	f.checkStarts(1, "one key in several spellings")
	for i, method := range []string{"GET", "PUT", "DELETE", "OPTIONS", "POST"} {
		header := append(credential, "Idempotency-Attempt", "7")
		if method != "POST" {
			header = append(header, "X-Key", "passes")
		}
		r := f.sendRequest(method, "/orders", "x", header...)
		assert.Contains(t, r.body, `"attempt":[]`, "%s passes without the client's own number", method)
		f.checkStarts(int64(i+2), method)
	}
	// After a hundred other fields: many fields do not bypass the guard.
	many := append([]string{}, credential...)
	for i := range 150 {
		many = append(many, fmt.Sprint("X-", i), "x")
	}
	many = append(many, "X-Key", "last")
	f.sendRequest("POST", "/orders", "x", many...)
	f.sendRequest("POST", "/orders", "x", many...)
	f.checkStarts(7, "a key behind many fields")
}

// TestNginxBodies is H12, and checks that a large body is a part of the fingerprint.
func TestNginxBodies(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 1<<20)
	f := startNginx(t, nginxSetup{origin: func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprint(w, string(body) == big)
	}, replace: map[string]string{"client_body_buffer_size 1m": "client_body_buffer_size 8k"}})
	assert.Equal(t, f.postOrder("big", big).body, "true", "a body of 1 MiB, by way of a file")
	assert.Equal(t, f.postOrder("big", big).header.Get("Idempotency-Replayed"), "true", "its repeat")
	f.checkProblem(f.postOrder("big", big[1:]+"y"), 422, "payload-mismatch", false)
	f.checkProblem(f.postOrder("larger", big+"x"), 413, "body-too-large", false)
	f.checkProblem(f.postOrder("largest", big+big+"x"), 413, "body-too-large", false)
	f.checkStarts(1, "bodies that are too large")

	req, err := http.NewRequestWithContext(t.Context(), "POST", f.url+"/orders?a=1", io.MultiReader(strings.NewReader(big[:9]), strings.NewReader(big[9:])))
	assert.NoError(t, err, "request")
	req.Header.Set("Idempotency-Key", "parts")
	req.Header.Set("Authorization", "Bearer opaque")
	resp, err := f.client.Do(req)
	assert.NoError(t, err, "a body in chunks")
	got, err := io.ReadAll(resp.Body)
	assert.NoError(t, errors.Join(err, resp.Body.Close()), "answer")
	assert.Equal(t, string(got), "true", "what the service gets of a body in chunks")
	assert.Equal(t, f.postOrder("parts", big).header.Get("Idempotency-Replayed"), "true", "a repeat with a length")
	f.checkStarts(2, "a body in chunks")

	c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	assert.NoError(t, err, "connect")
	defer c.Close()
	_, err = io.WriteString(c, "POST /orders?a=1 HTTP/1.1\r\nHost: x\r\nIdempotency-Key: cut\r\nAuthorization: Bearer opaque\r\nContent-Length: 9\r\n\r\nhalf")
	assert.NoError(t, err, "half a body")
	assert.NoError(t, c.(*net.TCPConn).CloseWrite(), "the end of it") //nolint:errcheck,forcetypeassert // it is TCP
	_, _ = io.Copy(io.Discard, c)
	assert.Equal(t, f.postOrder("cut", big).status, 200, "the key is free")
	f.checkStarts(3, "a body that was cut")
}

// awaitEnd waits for end with a limit, so that a test that fails does not hang.
func awaitEnd(end <-chan bool) {
	select {
	case <-end:
	case <-time.After(waits.Patience):
	}
}

// TestNginxInProgress is H5 and H6: fifty duplicates at once, and other payloads and credentials
// among them.
func TestNginxInProgress(t *testing.T) {
	t.Parallel()
	end := make(chan bool)
	f := startNginx(t, nginxSetup{origin: func(w http.ResponseWriter, _ *http.Request) {
		awaitEnd(end)
		_, _ = io.WriteString(w, "done")
	}})
	var wg sync.WaitGroup
	var answered, progress atomic.Int64
	for range 50 {
		wg.Go(func() {
			switch r := f.postOrder("k", "x"); r.status {
			case 200:
				answered.Add(1)
			case 409:
				f.checkProblem(r, 409, "in-progress", true)
				assert.Contains(t, r.body, `"error_code":201`, "the code")
				if progress.Add(1) == 49 {
					f.checkProblem(f.postOrder("k", "y"), 422, "payload-mismatch", false)
					close(end)
				}
			}
		})
	}
	wg.Wait()
	assert.Equal(t, fmt.Sprint(answered.Load(), progress.Load()), "1 49", "one answer, and who was told to wait")
	f.checkStarts(1, "fifty at once")
	f.checkProblem(f.postOrder("k", "y"), 422, "payload-mismatch", false)
	assert.Equal(t, f.postOrder("k", "x").body, "done", "a repeat")
}

// TestNginxHangUp: a client that disconnects stops nothing. The answer is stored for its duplicate.
func TestNginxHangUp(t *testing.T) {
	t.Parallel()
	begun, end := make(chan bool, 100), make(chan bool)
	f := startNginx(t, nginxSetup{origin: func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // it notices the end of the connection
		begun <- true
		awaitEnd(end)
		if r.Context().Err() != nil {
			return
		}
		_, _ = io.WriteString(w, "done")
	}})
	ctx, hangUp := context.WithCancel(t.Context())
	go func() {
		<-begun
		hangUp()
	}()
	_, err := f.trySend(ctx, "POST", "/orders?a=1", "x", "Idempotency-Key", "k", "Authorization", "Bearer opaque")
	assert.ErrorIs(t, err, context.Canceled, "the client")
	time.Sleep(100 * time.Millisecond) // nginx has noticed it by then
	close(end)
	f.awaitTrue(func() bool { return f.postOrder("k", "x").status == 200 }, "the answer of the first")
	assert.Equal(t, f.postOrder("k", "x").header.Get("Idempotency-Replayed"), "true", "replayed")
	f.checkStarts(1, "a client that hangs up")
}

// awaitTrue waits for what another process does.
func (f *nginxFront) awaitTrue(ok func() bool, what string) {
	f.t.Helper()
	for end := time.Now().Add(waits.Patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	f.t.Fatalf("it did not come within %v: %s", waits.Patience, what)
}

// TestNginxDuplicates is H8.
func TestNginxDuplicates(t *testing.T) {
	t.Parallel()
	f := startNginx(t, nginxSetup{origin: answerOrders()})
	vote := func() nginxReply {
		return f.sendRequest("POST", "/transfers", "x", "Idempotency-Key", "k", "Authorization", "Bearer opaque")
	}
	assert.Equal(t, vote().status, 201, "the first")
	again := vote()
	f.checkProblem(again, 409, "already-done", false)
	assert.Contains(t, again.body, `"error_code":202`, "the code")
	f.checkStarts(1, "a vote")
}

// TestNginxTenants is H3.
func TestNginxTenants(t *testing.T) {
	t.Parallel()
	f := startNginx(t, nginxSetup{origin: answerOrders(), replace: map[string]string{
		`transfers = guard:with {duplicate = "reject"}`: `transfers = guard:with {tenant = "http_x_user"}`,
	}})
	by := func(path string, header ...string) nginxReply {
		return f.sendRequest("POST", path, "x", append([]string{"Idempotency-Key", "a-key-of-more-than-22-characters"}, header...)...)
	}
	// {"iss":"i","sub":"u"} with another signature
	first, other := "Bearer e30.eyJpc3MiOiJpIiwic3ViIjoidSJ9.a", "Bearer e30.eyJpc3MiOiJpIiwic3ViIjoidSJ9.b"
	bodies := map[string]bool{}
	for _, credential := range []string{first, "Basic dTpw", "Bearer x", "Bearer y", ""} {
		var header []string
		if credential != "" {
			header = []string{"Authorization", credential}
		}
		bodies[by("/orders", header...).body] = true
		bodies[by("/orders", header...).body] = true
	}
	assert.Equal(t, len(bodies), 5, "answers of five callers")
	f.checkProblem(by("/orders", "Authorization", other), 409, "principal-changed", false)
	f.checkProblem(by("/orders", "Authorization", "Basic dTpx"), 409, "principal-changed", false)
	f.checkProblem(by("/orders", "Cookie", "session=bob"), 409, "cookies-changed", false)
	f.checkProblem(by("/transfers"), 403, "tenant-missing", false)
	f.checkStarts(5, "five callers")
	assert.NotEqual(t, by("/transfers", "X-User", "a").body, by("/transfers", "X-User", "b").body, "two users")
	assert.Equal(t, by("/transfers", "X-User", "a", "Authorization", "Bearer z").header.Get("Idempotency-Replayed"), "true", "no binding")
	f.checkStarts(7, "two users that a front names")
}
