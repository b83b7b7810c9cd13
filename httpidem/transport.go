package httpidem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/backoff"
)

// Transport is the client side: an [http.RoundTripper] that retries a request with the same key
// until it is answered, and only where that is safe. The zero value is ready to use. It is safe for
// concurrent use as long as its fields are not changed.
//
// The key of a request is the one in its header, else that of its context ([ContextWithKey]), else
// one from NewKey. GET, HEAD, OPTIONS and TRACE get no key. A key that cannot be sent in a header
// is an error, and nothing is sent.
//
// Transport retries a request, whole and unchanged, if it has a key or its method is idempotent
// (GET, HEAD, OPTIONS, TRACE, PUT, DELETE: RFC 9110, section 9.2.2), and if the try ended in
//
//   - an error of Base, while the request's context lives;
//   - 408, 425, 429, 502, 503 or 504;
//   - 409 with a Retry-After: another attempt is running or has just ended.
//
// An answer is final, whatever its status, if it is a problem document that says that a retry would
// get the same answer (outcome-unknown, already-done and similar codes, or the error_code 202).
// Every other answer is final too, 500 included: the handler ran, and a retry gets the stored
// answer. If the body of an answer breaks off later, the caller can send the request again with the
// same key. A request that has no key, and whose method is not idempotent, is sent once, unchanged:
// no server could tell its retry from a new request.
//
// RoundTrip returns the last answer unchanged. If several tries were made, the error of the last
// one is wrapped, with their number. If the next wait would be longer than MaxWait, or would
// outlast the context, RoundTrip returns the answer or error that it has at once. A context that
// ends during a wait ends the wait.
//
// A redirect (307, 308) that [http.Client] follows is a request of its own. The key of the context
// is sent only to the host of the first request. To another host, PUT and DELETE go without it; a
// method that needs it is an error, and nothing is sent. A header that the caller has set, also in
// CheckRedirect, goes wherever [http.Client] sends it.
type Transport struct {
	// Base makes the tries; default http.DefaultTransport, which by itself also retries a request
	// with a key on a new connection if the old one turns out to be closed. The server sees the
	// same key.
	Base http.RoundTripper
	// Header is the field of the key; default Idempotency-Key.
	Header string
	// NewKey makes the key of a request that has none. It is called once for each RoundTrip, so its
	// key covers the tries made here, not retries by the caller. It must return at least 128 random
	// bits and may be called concurrently; Text of crypto/rand is suitable. Default: no key is
	// made.
	NewKey func() string
	// MaxAttempts is the largest number of tries of one request, the first included. Default 4; 1
	// means no retries.
	MaxAttempts int
	// MinWait is the longest wait before the second try; it doubles with each try. The actual wait
	// is random between zero and that ("full jitter"), on top of what Retry-After asks for. Default
	// 100 ms.
	MinWait time.Duration
	// MaxWait is the longest wait before a try; default 10 s. An answer whose Retry-After is longer
	// is returned.
	MaxWait time.Duration
	// MaxBody is the largest body without GetBody that is kept in memory for retries, in bytes;
	// default 1 MiB. Transport reads such a body whole before it sends anything. A request with a
	// larger body is sent once, with its key. If negative, no body is kept.
	MaxBody int64
}

// RoundTrip sends req, and retries it where that is safe. It does not change req, but reads and
// closes its body.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	key, err := t.outgoingKeyFor(req)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	if !key.present && !isIdempotentMethod(req.Method) {
		return t.base().RoundTrip(req)
	}
	body, err := t.preparePayload(req)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	for n := 1; ; n++ {
		try := req.WithContext(withResends(req.Context(), n-1))
		key.setHeader(req, try)
		if err := body.setBody(try, n); err != nil {
			return nil, &triesError{n - 1, err}
		}
		resp, err := t.base().RoundTrip(try)
		wait, again := t.nextTry(req.Context(), n, body, resp, err)
		switch {
		case !again && err == nil:
			resp.Request = req // the caller's request; http.Client needs it if a redirect follows
			return resp, nil
		case !again && n == 1:
			return nil, err
		case !again:
			return nil, &triesError{n, err}
		case err == nil:
			drainAndClose(resp)
		}
		if ended := backoff.Pause(req.Context(), wait); ended != nil {
			return nil, &triesError{n, errors.Join(ended, err)}
		}
	}
}

// CloseIdleConnections calls the method of that name of Base, if there is one.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return http.DefaultTransport
}

func isIdempotentMethod(method string) bool {
	return isUnkeyedMethod(method) || method == http.MethodPut || method == http.MethodDelete
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// triesError is the error after several tries, or after a wait for the next one. It implements
// Timeout itself, since [net/url.Error] does not unwrap the error to ask for it.
type triesError struct {
	n   int
	err error
}

func (e *triesError) Error() string {
	return fmt.Sprintf("httpidem: no final answer (tries made: %d); it may have taken effect, so repeat it unchanged or not at all: %v", e.n, e.err)
}

func (e *triesError) Unwrap() error { return e.err }

func (e *triesError) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.err, &t) && t.Timeout()
}

// nextTry reports whether another try follows the n-th one, and after what wait.
func (t *Transport) nextTry(ctx context.Context, n int, body *payload, resp *http.Response, err error) (time.Duration, bool) {
	tries := backoff.Backoff{MaxAttempts: t.MaxAttempts, MinWait: t.MinWait, MaxWait: t.MaxWait}
	if body.more == nil || tries.Last(ctx, n) {
		return 0, false
	}
	var after time.Duration
	if err == nil {
		var ok bool
		if after, ok = mayRepeat(resp); !ok {
			return 0, false
		}
	}
	return tries.Next(ctx, n, after)
}

// transientStatuses are the statuses that may be different at the next try.
var transientStatuses = []int{
	http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
	http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// mayRepeat reports whether the request that resp answers may be sent again, and the least wait
// before that.
func mayRepeat(resp *http.Response) (time.Duration, bool) {
	after, told := RetryAfter(resp.Header, time.Now())
	if conflict := resp.StatusCode == http.StatusConflict; conflict && !told || !conflict && !slices.Contains(transientStatuses, resp.StatusCode) {
		return 0, false
	}
	if resp.Header.Get(headerReplayed) == "true" || resp.Header.Get(dialects[ContractStripe].replayed) == "true" {
		return 0, false // a retry would get the same answer
	}
	if resp.ContentLength < 0 {
		return after, true // the body may never end; a retry that gets the same answer does no harm
	}
	p, ok := ProblemFrom(resp)
	if !ok {
		return after, true
	}
	code, known := retrysafe.ParseCode(p.Code)
	return after, p.ErrorCode != errorDone && (!known || code.Retryable())
}

// payload is the body of a request that may be sent more than once.
type payload struct {
	first  io.ReadCloser
	more   func() (io.ReadCloser, error) // nil: it can be sent once
	length int64
}

// preparePayload prepares the body of req. After an error the caller must still close the body.
func (t *Transport) preparePayload(req *http.Request) (*payload, error) {
	p := &payload{req.Body, req.GetBody, req.ContentLength}
	limit := t.MaxBody
	if limit == 0 {
		limit = 1 << 20
	}
	switch {
	case req.Body == nil || req.Body == http.NoBody:
		p.more = func() (io.ReadCloser, error) { return req.Body, nil }
		return p, nil
	case req.GetBody != nil, limit < 0, req.ContentLength > limit, t.MaxAttempts == 1:
		return p, nil
	}
	b, err := readAll(req, limit)
	switch {
	case err != nil:
		return nil, fmt.Errorf("httpidem: the request body cannot be read, and nothing was sent: %w", err)
	case int64(len(b)) > limit:
		p.first = &readerCloser{io.MultiReader(bytes.NewReader(b), req.Body), req.Body}
		return p, nil
	case req.ContentLength > 0 && req.ContentLength != int64(len(b)):
		return nil, fmt.Errorf("httpidem: the request body has %d bytes and its ContentLength says %d; nothing was sent", len(b), req.ContentLength)
	}
	closeBody(req)
	p.more = func() (io.ReadCloser, error) {
		if len(b) == 0 {
			return http.NoBody, nil
		}
		return io.NopCloser(bytes.NewReader(b)), nil
	}
	p.first, _ = p.more()
	if p.length = int64(len(b)); len(req.TransferEncoding) > 0 || len(req.Trailer) > 0 {
		p.length = -1 // keep the request chunked, as the caller wants
	}
	return p, nil
}

// readAll reads the body up to one byte over limit. If the context ends, it closes the body, which
// ends a blocked read.
func readAll(req *http.Request, limit int64) ([]byte, error) {
	ctx := req.Context()
	stop := context.AfterFunc(ctx, func() { closeBody(req) })
	b, err := io.ReadAll(io.LimitReader(req.Body, limit+1))
	if !stop() {
		return nil, context.Cause(ctx)
	}
	return b, err
}

// setBody sets the body of the n-th try.
func (p *payload) setBody(try *http.Request, n int) error {
	body := p.first
	if n > 1 {
		again, err := p.more()
		if err != nil {
			return fmt.Errorf("the request body cannot be read again: %w", err)
		}
		body = again
	}
	try.Body, try.ContentLength = body, p.length
	if body != nil {
		try.GetBody = p.more
	}
	return nil
}

// readerCloser reads from one and closes the other.
type readerCloser struct {
	io.Reader
	io.Closer
}

// maxDrained is the most that is read of an unwanted answer, in bytes, so that its connection can
// be used again.
const maxDrained = 64 << 10

func drainAndClose(resp *http.Response) {
	if resp.Body == nil {
		return
	}
	if 0 <= resp.ContentLength && resp.ContentLength <= maxDrained {
		// a body of unknown length may never end
		_, _ = io.CopyN(io.Discard, resp.Body, maxDrained+1)
	}
	_ = resp.Body.Close()
}

// peekBody reads up to limit bytes of the body of resp and puts them back, followed by the error
// that ended the reading. It reports whether it read the whole body.
func peekBody(resp *http.Response, limit int64) ([]byte, bool) {
	if resp.Body == nil {
		return nil, false
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	var rest io.Reader = resp.Body
	if err != nil {
		rest = brokenBody{err}
	}
	resp.Body = &readerCloser{io.MultiReader(bytes.NewReader(b), rest), resp.Body}
	return b, err == nil && int64(len(b)) <= limit
}

// brokenBody is the rest of a body that broke off.
type brokenBody struct{ err error }

func (b brokenBody) Read([]byte) (int, error) { return 0, b.err }

type resendsKey struct{}

// withResends returns the context of a try before which n others were sent. The first try has the
// caller's context itself.
func withResends(ctx context.Context, n int) context.Context {
	if n == 0 {
		return ctx
	}
	return context.WithValue(ctx, resendsKey{}, n)
}

// Resends returns how many tries of this request a [Transport] has made before the one that ctx
// belongs to, for its Base: zero for the first one. Conventions for traces call it
// http.request.resend_count.
func Resends(ctx context.Context) int {
	n, _ := ctx.Value(resendsKey{}).(int)
	return n
}
