package httpidem

import (
	"errors"
	"fmt"
	"net/http"
	"time"

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
	key, err := t.keyFor(req)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	if !key.present && !idempotent(req.Method) {
		return t.base().RoundTrip(req)
	}
	body, err := t.payloadOf(req)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	for n := 1; ; n++ {
		try := req.WithContext(withResends(req.Context(), n-1))
		key.put(req, try)
		if err := body.put(try, n); err != nil {
			return nil, &triesError{n - 1, err}
		}
		resp, err := t.base().RoundTrip(try)
		wait, again := t.again(req.Context(), n, body, resp, err)
		switch {
		case !again && err == nil:
			resp.Request = req // the caller's request; http.Client needs it if a redirect follows
			return resp, nil
		case !again && n == 1:
			return nil, err
		case !again:
			return nil, &triesError{n, err}
		case err == nil:
			drop(resp)
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

func idempotent(method string) bool {
	return unkeyed(method) || method == http.MethodPut || method == http.MethodDelete
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
