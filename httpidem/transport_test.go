package httpidem_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// bubble runs f under its own clock, on which waiting takes no time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// reply is one answer of a script; with err there is no answer.
type reply struct {
	status int
	fields string // "Name: value" lines
	body   string
	err    error
}

// script answers the n-th try with the n-th reply, and later tries with the last reply. It records
// what was sent.
type script struct {
	replies []reply
	sent    []string // "method path key length body" of each try
	headers []http.Header
	at      []time.Duration // of each try, since the first
	bodies  []*closing      // of the answers
	first   time.Time
	hook    func(n int)
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(s.sent) == 0 {
		s.first = time.Now()
	}
	s.at = append(s.at, time.Since(s.first))
	var b []byte
	if r.Body != nil {
		b, _ = io.ReadAll(r.Body)
		_ = r.Body.Close()
	}
	s.headers = append(s.headers, r.Header)
	s.sent = append(s.sent, fmt.Sprint(r.Method, " ", r.URL.Path, " ", strings.Join(r.Header["Idempotency-Key"], "|"), " ", r.ContentLength, " ", string(b)))
	if s.hook != nil {
		s.hook(len(s.sent))
	}
	re := s.replies[min(len(s.sent), len(s.replies))-1]
	if re.err != nil {
		return nil, re.err
	}
	body := &closing{Reader: strings.NewReader(re.body)}
	s.bodies = append(s.bodies, body)
	h := http.Header{}
	for _, line := range strings.Split(re.fields, "\n") {
		if name, v, ok := strings.Cut(line, ": "); ok {
			h.Add(name, v)
		}
	}
	return &http.Response{StatusCode: re.status, Header: h, Body: body, ContentLength: int64(len(re.body)), Request: r}, nil
}

// closing is a body that knows whether it was closed.
type closing struct {
	io.Reader
	closed atomic.Bool
}

func (c *closing) Close() error {
	c.closed.Store(true)
	return nil
}

func outgoing(ctx context.Context, method, key, body string) *http.Request {
	r, _ := http.NewRequestWithContext(ctx, method, "http://shop.example/orders", strings.NewReader(body))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return r
}

const problemType = "Content-Type: application/problem+json"

// TestWhatIsSentAgain tests the table of the contract: status and fields against method and key.
func TestWhatIsSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		problem := func(status int, members, fields string) reply {
			return reply{status: status, fields: problemType + "\n" + fields, body: "{" + members + "}"}
		}
		again := map[string]reply{
			"error":                    {err: io.ErrUnexpectedEOF},
			"408":                      {status: 408},
			"425":                      {status: 425},
			"429":                      {status: 429},
			"502":                      {status: 502},
			"503":                      {status: 503},
			"504":                      {status: 504},
			"409 with Retry-After":     {status: 409, fields: "Retry-After: 1"},
			"409 with a date":          {status: 409, fields: "Retry-After: Sat, 01 Jan 2000 00:00:02 GMT"},
			"in-progress":              problem(409, `"code":"in-progress"`, "Retry-After: 1"),
			"attempt-failed":           problem(409, `"code":"attempt-failed"`, "Retry-After: 1"),
			"lease-lost":               problem(409, `"code":"lease-lost"`, "Retry-After: 1"),
			"error_code 201":           problem(409, `"code":"in-progress","error_code":201`, "Retry-After: 1"),
			"somebody else's 201":      problem(409, `"error_code":201`, "Retry-After: 1"),
			"store-unavailable":        problem(503, `"code":"store-unavailable"`, "Retry-After: 1"),
			"shutting-down":            problem(503, `"code":"shutting-down"`, "Retry-After: 1"),
			"upstream-unreachable":     problem(503, `"code":"upstream-unreachable"`, "Retry-After: 1"),
			"a problem that is broken": {status: 504, fields: problemType, body: `{"code":`},
			"a code in another type":   {status: 504, fields: "Content-Type: application/json", body: `{"code":"outcome-unknown"}`},
		}
		final := map[string]reply{
			"200":                      {status: 200},
			"303":                      {status: 303},
			"400":                      {status: 400},
			"401":                      {status: 401},
			"422":                      {status: 422},
			"423 with Retry-After":     {status: 423, fields: "Retry-After: 1"},
			"500":                      {status: 500},
			"500 with Retry-After":     {status: 500, fields: "Retry-After: 1"},
			"501":                      {status: 501},
			"409":                      {status: 409},
			"409 with nonsense":        {status: 409, fields: "Retry-After: soon"},
			"409 with a negative":      {status: 409, fields: "Retry-After: -1"},
			"409 with a longer wait":   {status: 409, fields: "Retry-After: 11"},
			"503 with a longer wait":   {status: 503, fields: "Retry-After: 11"},
			"503 with an endless wait": {status: 503, fields: "Retry-After: 99999999999999999999"},
			"outcome-unknown":          problem(409, `"code":"outcome-unknown"`, ""),
			"outcome-unknown 502":      problem(502, `"code":"outcome-unknown"`, ""),
			"outcome-unknown 504":      problem(504, `"code":"outcome-unknown"`, ""),
			"principal-changed":        problem(409, `"code":"principal-changed"`, ""),
			"answer-not-kept":          problem(409, `"code":"answer-not-kept"`, ""),
			"already-done":             problem(409, `"code":"already-done","error_code":202`, ""),
			"error_code 202":           problem(409, `"error_code":202`, "Retry-After: 1"),
			"error_code 202 in a 503":  problem(503, `"error_code":202`, "Retry-After: 1"),
			"payload-mismatch":         problem(422, `"code":"payload-mismatch"`, ""),
		}
		for _, code := range []string{"outcome-unknown", "already-done", "answer-not-kept", "principal-changed", "resolved-failed"} {
			final[code+" in a 503"] = problem(503, `"code":"`+code+`"`, "Retry-After: 1")
		}
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "POST", "PATCH", "LOCK"} {
			for _, key := range []string{"", "k"} {
				safe := key != "" || slices.Contains([]string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"}, method)
				check := func(name string, r reply, want int) {
					s := &script{replies: []reply{r, {status: 201}}}
					resp, err := (&httpidem.Transport{Base: s}).RoundTrip(outgoing(t.Context(), method, key, "body"))
					if err == nil {
						_ = resp.Body.Close()
					}
					assert.Equal(t, len(s.sent), want, "%s, key %q: tries after %s", method, key, name)
				}
				for name, r := range again {
					check(name, r, map[bool]int{true: 2, false: 1}[safe])
				}
				for name, r := range final {
					check(name, r, 1)
				}
			}
		}
	})
}

// TestTriesAreAlike tests that each try has the fields, the key and the body of the first.
func TestTriesAreAlike(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for name, r := range map[string]*http.Request{
			"with GetBody": outgoing(t.Context(), "POST", "k", "body"),
			"from memory": func() *http.Request {
				r := outgoing(t.Context(), "POST", "k", "")
				r.Body, r.GetBody, r.ContentLength = io.NopCloser(strings.NewReader("body")), nil, -1
				return r
			}(),
			"key of the context": outgoing(httpidem.ContextWithKey(t.Context(), "k"), "POST", "", "body"),
		} {
			before, s := r.Header.Clone(), &script{replies: []reply{{err: io.EOF}, {status: 503}, {status: 201}}}
			r.Header.Set("X-Own", "1")
			before.Set("X-Own", "1")
			resp, err := (&httpidem.Transport{Base: s}).RoundTrip(r)
			assert.NoError(t, err, "%s", name)
			assert.Equal(t, resp.StatusCode, 201, "%s: status", name)
			assert.Equal(t, s.sent, []string{"POST /orders k 4 body", "POST /orders k 4 body", "POST /orders k 4 body"}, "%s: tries", name)
			for _, h := range s.headers {
				assert.Equal(t, h, s.headers[0], "%s: fields", name)
			}
			assert.Equal(t, s.headers[0].Get("X-Own"), "1", "%s: the caller's field", name)
			assert.Equal(t, r.Header, before, "%s: the caller's request is left alone", name)
			assert.True(t, resp.Request == r, "%s: the answer names the caller's request", name)
			assert.True(t, s.bodies[0].closed.Load() && !s.bodies[1].closed.Load(), "%s: dropped answers are closed, the last is not", name)
		}
	})
}

// TestLastAnswerIsWhole tests that bytes that were peeked at are put back.
func TestLastAnswerIsWhole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for name, body := range map[string]string{
			"a problem":   `{"code":"outcome-unknown","detail":"d"}`,
			"too large":   `{"code":"outcome-unknown","detail":"` + strings.Repeat("x", 100<<10) + `"}`,
			"not a JSON":  "no",
			"none at all": "",
		} {
			s := &script{replies: []reply{{status: 504, fields: problemType, body: body}}}
			resp, err := (&httpidem.Transport{Base: s}).RoundTrip(outgoing(t.Context(), "POST", "k", "x"))
			assert.NoError(t, err, "%s", name)
			got, err := io.ReadAll(resp.Body)
			assert.Equal(t, fmt.Sprint(string(got) == body, err), "true <nil>", "%s: body", name)
			_ = resp.Body.Close()
			assert.True(t, s.bodies[len(s.bodies)-1].closed.Load(), "%s: Close goes through", name)
		}
	})
}

func TestErrorAfterAllTries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &script{replies: []reply{{err: io.EOF}, {status: 503}, {err: &timeout{}}}}
		_, err := (&httpidem.Transport{Base: s, MaxAttempts: 3}).RoundTrip(outgoing(t.Context(), "POST", "the-key", "the-body"))
		var own *timeout
		assert.True(t, errors.As(err, &own), "the last error is wrapped: %v", err)
		assert.Contains(t, err.Error(), "tries made: 3", "error")
		assert.True(t, !strings.Contains(err.Error(), "the-"), "no key and no body in it: %v", err)
		assert.True(t, (&url.Error{Err: err}).Timeout(), "a timeout is one")

		s = &script{replies: []reply{{err: io.EOF}}}
		_, err = (&httpidem.Transport{Base: s, MaxAttempts: 1}).RoundTrip(outgoing(t.Context(), "POST", "k", "x"))
		assert.Equal(t, err, io.EOF, "the error of the only try comes as it is")
		assert.Equal(t, len(s.sent), 1, "tries")
	})
}

type timeout struct{}

func (*timeout) Error() string { return "it took too long" }
func (*timeout) Timeout() bool { return true }

func TestWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		spread, longest := map[time.Duration]bool{}, [5]time.Duration{}
		for range 50 {
			s := &script{replies: []reply{{err: io.EOF}}}
			_, _ = (&httpidem.Transport{Base: s, MaxAttempts: 6, MaxWait: time.Second}).RoundTrip(outgoing(t.Context(), "POST", "k", "x"))
			assert.Equal(t, len(s.at), 6, "tries")
			for i, most := range []time.Duration{100, 200, 400, 800, 1000} {
				wait := s.at[i+1] - s.at[i]
				assert.True(t, wait <= most*time.Millisecond, "wait %d: %v", i, wait)
				spread[wait], longest[i] = true, max(longest[i], wait)
			}
		}
		assert.True(t, longest[1] > 100*time.Millisecond && longest[3] > 400*time.Millisecond, "waits grow: %v", longest)
		assert.True(t, len(spread) > 100, "waits are random: %d of 250 differ", len(spread))

		for fields, least := range map[string]time.Duration{
			"Retry-After: 3":  3 * time.Second,
			"Retry-After: 10": 10 * time.Second,
			// The date is compared with the server's clock, which is a year ahead.
			"Retry-After: Mon, 01 Jan 2001 00:00:05 GMT\nDate: Mon, 01 Jan 2001 00:00:00 GMT": 5 * time.Second,
			"Retry-After: Mon, 01 Jan 2001 00:00:05 GMT\nDate: Mon, 01 Jan 2001 00:00:09 GMT": 0,
		} {
			s := &script{replies: []reply{{status: 503, fields: fields}, {status: 200}}}
			_, err := (&httpidem.Transport{Base: s}).RoundTrip(outgoing(t.Context(), "POST", "k", "x"))
			assert.NoError(t, err, "%s", fields)
			assert.True(t, s.at[1] >= least && s.at[1] <= least+100*time.Millisecond && s.at[1] <= 10*time.Second, "%s: waited %v", fields, s.at[1])
		}
	})
}

// TestWaitsThatCannotEnd tests that an answer is returned rather than waiting beyond the context.
func TestWaitsThatCannotEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		s := &script{replies: []reply{{status: 503, fields: "Retry-After: 3", body: "busy"}}}
		resp, err := (&httpidem.Transport{Base: s}).RoundTrip(outgoing(ctx, "POST", "k", "x"))
		assert.NoError(t, err, "the answer")
		body, _ := io.ReadAll(resp.Body)
		assert.Equal(t, fmt.Sprintf("%d %s %v", resp.StatusCode, body, time.Since(began)), "503 busy 0s", "at once")
	})
}

func TestCancelledWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		began := time.Now()
		time.AfterFunc(time.Second, func() { cancel(nil) })
		s := &script{replies: []reply{{status: 503, fields: "Retry-After: 5"}}}
		_, err := (&httpidem.Transport{Base: s}).RoundTrip(outgoing(ctx, "POST", "k", "x"))
		assert.ErrorIs(t, err, context.Canceled, "the context's error")
		assert.Equal(t, fmt.Sprint(time.Since(began), len(s.sent)), "1s 1", "at once, and no further try")

		// A context that ends during a try does not lead to another try.
		ctx, cancel = context.WithCancelCause(t.Context())
		s = &script{replies: []reply{{err: io.EOF}}, hook: func(int) { cancel(nil) }}
		_, err = (&httpidem.Transport{Base: s}).RoundTrip(outgoing(ctx, "POST", "k", "x"))
		assert.Equal(t, err, io.EOF, "the error of the try")
		assert.Equal(t, len(s.sent), 1, "tries")
		s = &script{replies: []reply{{status: 503}}}
		resp, err := (&httpidem.Transport{Base: s}).RoundTrip(outgoing(ctx, "POST", "k", "x"))
		assert.True(t, err == nil && resp.StatusCode == 503 && len(s.sent) == 1, "nor is an answer thrown away: %v", err)
	})
}

// TestBodies tests that bodies that can be sent again are, and that the caller's body is always
// closed.
func TestBodies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		broken := errors.New("the disk is gone")
		for name, tt := range map[string]struct {
			body    io.Reader
			length  int64
			maxBody int64
			status  int
			want    string // the tries
			err     string
		}{
			"unknown length":     {strings.NewReader("body"), -1, 0, 503, "POST /orders k 4 body,POST /orders k 4 body", ""},
			"length not set":     {strings.NewReader("body"), 0, 0, 503, "POST /orders k 4 body,POST /orders k 4 body", ""},
			"known length":       {strings.NewReader("body"), 4, 4, 503, "POST /orders k 4 body,POST /orders k 4 body", ""},
			"empty":              {strings.NewReader(""), -1, 0, 503, "POST /orders k 0 ,POST /orders k 0 ", ""},
			"too large":          {strings.NewReader("a body"), -1, 5, 503, "POST /orders k -1 a body", ""},
			"too large, said so": {strings.NewReader("a body"), 6, 5, 503, "POST /orders k 6 a body", ""},
			"none is kept":       {strings.NewReader("body"), 4, -1, 503, "POST /orders k 4 body", ""},
			"shorter than said":  {strings.NewReader("body"), 5, 0, 503, "", "4 bytes"},
			"longer than said":   {strings.NewReader("body"), 3, 0, 503, "", "4 bytes"},
			"breaks off":         {io.MultiReader(strings.NewReader("bo"), &failing{broken}), -1, 0, 503, "", "the disk is gone"},
		} {
			r, in := outgoing(t.Context(), "POST", "k", ""), &closing{Reader: tt.body}
			r.Body, r.GetBody, r.ContentLength = in, nil, tt.length
			s := &script{replies: []reply{{status: tt.status}}}
			_, err := (&httpidem.Transport{Base: s, MaxAttempts: 2, MaxBody: tt.maxBody}).RoundTrip(r)
			assert.Equal(t, strings.Join(s.sent, ","), tt.want, "%s: tries", name)
			assert.Equal(t, err != nil, tt.err != "", "%s: error %v", name, err)
			if err != nil {
				assert.Contains(t, err.Error(), tt.err, "%s", name)
			}
			assert.True(t, in.closed.Load(), "%s: the body is closed", name)
		}

		r := outgoing(t.Context(), "POST", "k", "body")
		r.GetBody, r.ContentLength = nil, -1
		s := &script{replies: []reply{{status: 503}}}
		_, err := (&httpidem.Transport{Base: s, MaxAttempts: 1}).RoundTrip(r)
		assert.Equal(t, fmt.Sprint(s.sent, err), "[POST /orders k -1 body] <nil>", "what is sent once is not read before")

		r = outgoing(t.Context(), "POST", "k", "body")
		r.GetBody = func() (io.ReadCloser, error) { return nil, broken }
		s = &script{replies: []reply{{status: 503}}}
		_, err = (&httpidem.Transport{Base: s}).RoundTrip(r)
		assert.ErrorIs(t, err, broken, "a body that cannot be had again")
		assert.Equal(t, fmt.Sprint(len(s.sent), s.bodies[0].closed.Load()), "1 true", "tries, and the answer is closed")
	})
}

// failing fails once.
type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) {
	err := f.err
	f.err = io.EOF
	return 0, err
}

// TestBodiesThatHang tests that a context that ends also ends the reading of a body before the
// first try.
func TestBodiesThatHang(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		in, w := io.Pipe()
		defer w.Close()
		r := outgoing(ctx, "POST", "k", "")
		r.Body, r.GetBody, r.ContentLength = in, nil, -1
		s := &script{replies: []reply{{status: 200}}}
		_, err := (&httpidem.Transport{Base: s}).RoundTrip(r)
		assert.ErrorIs(t, err, context.DeadlineExceeded, "the context's error")
		assert.Equal(t, len(s.sent), 0, "tries")
	})
}

// TestTrailersAreSent tests trailers: their values are known only after the body was read, and they
// need a chunked body.
func TestTrailersAreSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := outgoing(t.Context(), "POST", "k", "")
		r.Trailer = http.Header{"X-Sum": nil}
		r.Body, r.GetBody, r.ContentLength = io.NopCloser(io.MultiReader(bytes.NewReader([]byte("body")), &atEnd{func() { r.Trailer.Set("X-Sum", "4") }})), nil, -1
		var sums []string
		s := &script{replies: []reply{{status: 503}}}
		_, err := (&httpidem.Transport{MaxAttempts: 2, Base: roundTrip(func(r *http.Request) (*http.Response, error) {
			sums = append(sums, r.Trailer.Get("X-Sum"))
			return s.RoundTrip(r)
		})}).RoundTrip(r)
		assert.NoError(t, err, "request")
		assert.Equal(t, fmt.Sprint(sums, s.sent), "[4 4] [POST /orders k -1 body POST /orders k -1 body]", "trailers and tries")
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type atEnd struct{ f func() }

func (a *atEnd) Read([]byte) (int, error) { a.f(); return 0, io.EOF }
