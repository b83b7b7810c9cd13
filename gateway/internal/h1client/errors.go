package h1client

import "strings"

// unreachable is the error of a connection that could not be made.
type unreachable struct{ err error }

func (e *unreachable) Error() string { return e.err.Error() }
func (e *unreachable) Unwrap() error { return e.err }

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
