package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// The bounds of what callers can make this server do. Its address may be open to more than the
// callers that it lets in, and the server that serves it may have no limits of its own.
const (
	bodyTime   = 30 * time.Second // for the body of a request to arrive
	answerTime = 2 * time.Minute  // for an answer to be taken
	turnTime   = 10 * time.Second // to wait for a turn

	mostAtOnce = 64 // requests of callers that were let in

	mostShort = 16 << 10 // bytes of a body that names something
	mostLong  = 2 << 20  // bytes of a body with an answer that an operator gives
)

// bound sets the time limits of a request. A server that has none is a test's.
func bound(w http.ResponseWriter) {
	control, now := http.NewResponseController(w), time.Now()
	_ = control.SetReadDeadline(now.Add(bodyTime))
	_ = control.SetWriteDeadline(now.Add(answerTime))
}

// readBody returns the body of a request that was let in. After it nothing of the request is read,
// and its handler may take longer than bodyTime.
func readBody(to *route, w http.ResponseWriter, r *http.Request) (body []byte, err error) {
	most := int64(mostShort)
	switch media := r.Header.Values("Content-Type"); {
	case to.in == nil && r.ContentLength != 0:
		return nil, badRequest("this request has a body, and none belongs here")
	case to.in == nil:
	case len(media) != 1 || strings.TrimSpace(first(media[0], ";")) != "application/json":
		return nil, problem(http.StatusUnsupportedMediaType, "not-json", "send application/json")
	default:
		if to.need.Has(Resolve) {
			most = mostLong
		}
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, problem(http.StatusRequestEntityTooLarge, "too-large", "the body is too large for what this does")
	case err != nil:
		return nil, problem(http.StatusRequestTimeout, "no-body", "the body did not arrive")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return body, nil
}

// first returns the text before a separator.
func first(text, separator string) string {
	before, _, _ := strings.Cut(text, separator)
	return before
}

// answer writes an answer within answerTime from now.
func answer(w http.ResponseWriter, status int, text []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTime))
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may have gone
}

// turns bounds how many requests are worked on at once: listing records is work for the store.
type turns chan struct{}

// take waits for a turn.
func (t turns) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(turnTime)
	defer timer.Stop()
	select {
	case t <- struct{}{}:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return problem(http.StatusServiceUnavailable, "busy", "too many requests at once; try again soon")
}

func (t turns) back() { <-t }
