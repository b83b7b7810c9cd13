package once

import (
	"io"
	"net/http"
	"strings"
)

// sendHTTP2 sends a request through net/http, which sends one again if it takes it for replayable:
// one that has no body, or a body that it can rewind. That of a request that changes something
// cannot be rewound here.
func (t *Transport) sendHTTP2(r *http.Request, d *Delivery) (*http.Response, error) {
	ctx := r.Context()
	if d != nil {
		ctx = d.follow(ctx)
	}
	r = r.WithContext(ctx) // a copy
	if !changesNothing(r.Method) {
		r.GetBody = nil
		if hasNoBody(r) {
			r.Body, r.ContentLength = io.NopCloser(new(emptyBody)), 0
		}
	}
	return t.http2.RoundTrip(r)
}

// emptyBody is a body that net/http does not take for none.
type emptyBody struct{}

func (*emptyBody) Read([]byte) (int, error) { return 0, io.EOF }

// cannotRetry is the start of the text in which net/http says why it would have retried a request
// if its body allowed that. There is no error value for a stream that the service has certainly not
// accepted (RFC 9113, section 8.7). One of the reasons, PROTOCOL_ERROR, is no such promise. Only
// net/http's own text counts, from the start: services choose a part of other errors.
const cannotRetry = "http2: Transport: cannot retry err ["

// Refused reports whether err says that the service has not accepted the stream.
func Refused(err error) bool {
	why, ok := strings.CutPrefix(err.Error(), cannotRetry)
	return ok && strings.HasPrefix(why, "stream error: stream ID ") && strings.Contains(why, "; REFUSED_STREAM; received from peer]")
}

// GoneAway reports whether err is a GOAWAY that says that the stream was not accepted.
func GoneAway(err error) bool {
	why, ok := strings.CutPrefix(err.Error(), cannotRetry)
	return ok && strings.HasPrefix(why, "http2: Transport received Server's graceful shutdown GOAWAY]")
}
