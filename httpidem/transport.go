package httpidem

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe/backoff"
)

// Transport is the client's side: an [http.RoundTripper] that sends a request again with the same
// key until it is answered, and only where that is safe. The zero value works; it is safe for
// concurrent use as long as its fields are left alone.
//
// The key of a request is the one in its header; else that of its context ([ContextWithKey]); else
// one from NewKey. GET, HEAD, OPTIONS and TRACE are given none. A key that no field can carry is an
// error, and nothing is sent.
//
// A request is sent again, whole and unchanged, if it has a key or is idempotent by itself (GET,
// HEAD, OPTIONS, TRACE, PUT, DELETE: RFC 9110, section 9.2.2), when it ended
//
//   - in an error of Base, while its context lives;
//   - in 408, 425, 429, 502, 503 or 504;
//   - in 409 with a Retry-After: another attempt is at work or has just ended.
//
// A problem document that says that a repeat would be told the same (outcome-unknown, already-done
// and their like, or the error_code 202) is final, whatever its status; so is every other answer,
// 500 included, since the handler ran and a repeat gets it again. Any other request passes once, as
// it is: no server could tell its repeat from a new one. An answer whose body breaks off later is
// for the caller to ask for again, with the same key.
//
// The last answer is returned as it came. The error of the last of several tries is wrapped, with
// their number. Where the wait would be longer than MaxWait, or longer than the context lives, the
// answer or error that is there is returned at once; a context that ends in a wait ends it.
//
// A redirect (307, 308) that [http.Client] follows is a request of its own. The key of the context
// goes along only to the host that was asked first; to another one PUT and DELETE go without it,
// and what would need it is an error with nothing sent. A header that the caller has set, also in
// CheckRedirect, goes where [http.Client] takes it.
type Transport struct {
	// Base makes the tries; default http.DefaultTransport. By itself that repeats a request with a
	// key too, on a new connection, where an old one turns out to be closed; the server sees the
	// same key.
	Base http.RoundTripper
	// Header is the field of the key; default Idempotency-Key.
	Header string
	// NewKey makes the key of a request that has none, one for each RoundTrip: it covers the tries
	// made here, not those of the caller. It must return at least 128 random bits and may be called
	// concurrently; Text of crypto/rand will do. Default: none is made.
	NewKey func() string
	// Max is the most tries of one request, the first included; default 4, and 1 repeats nothing.
	Max int
	// MinWait is the most that is waited before the second try; it doubles with each. What is
	// waited is random, from zero up to that ("full jitter"), on top of what Retry-After asks for.
	// Default 100 ms.
	MinWait time.Duration
	// MaxWait is the longest wait before a try; default 10 s. An answer whose Retry-After is longer
	// is returned.
	MaxWait time.Duration
	// MaxBody is the most of a body without GetBody that is kept in memory, in bytes, so that it
	// can be sent again; default 1 MiB. Such a body is read whole before anything is sent. A
	// request with a larger one is sent once, with its key. Negative: none is kept.
	MaxBody int64
}

// RoundTrip sends req, again where that is safe. It leaves req as it is but for its body, which is
// read and closed.
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
		try := req.WithContext(req.Context())
		key.put(req, try)
		if err := body.put(try, n); err != nil {
			return nil, &triesError{n - 1, err}
		}
		resp, err := t.base().RoundTrip(try)
		wait, again := t.again(req.Context(), n, body, resp, err)
		switch {
		case !again && err == nil:
			resp.Request = req // as the caller knows it, and for the redirect that may follow
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

// CloseIdleConnections does so in Base, if that can.
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

// triesError is the end of several tries, or of the wait for another one. It says whether it was a
// timeout, which [net/url.Error] asks of the error itself.
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
