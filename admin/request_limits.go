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
	slotTime   = 10 * time.Second // to wait for a slot

	mostAtOnce = 64 // requests of callers that were let in

	mostShortBody = 16 << 10 // bytes of a body that names something
	mostLongBody  = 2 << 20  // bytes of a body with an answer that an operator gives
)

// setTimeLimits sets the time limits of a request. A server that has none is a test's.
func setTimeLimits(w http.ResponseWriter) {
	control, now := http.NewResponseController(w), time.Now()
	_ = control.SetReadDeadline(now.Add(bodyTime))
	_ = control.SetWriteDeadline(now.Add(answerTime))
}

// readBody returns the body of a request that was let in. After it nothing of the request is read,
// and its handler may take longer than bodyTime.
func readBody(to *route, w http.ResponseWriter, r *http.Request) (body []byte, err error) {
	most := int64(mostShortBody)
	switch media := r.Header.Values("Content-Type"); {
	case to.in == nil && r.ContentLength != 0:
		return nil, badRequest("this request has a body, and none belongs here")
	case to.in == nil:
	case len(media) != 1 || strings.TrimSpace(textBefore(media[0], ";")) != "application/json":
		return nil, newProblem(http.StatusUnsupportedMediaType, "not-json", "send application/json")
	default:
		if to.need.Has(Resolve) {
			most = mostLongBody
		}
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, newProblem(http.StatusRequestEntityTooLarge, "too-large", "the body is too large for what this does")
	case err != nil:
		return nil, newProblem(http.StatusRequestTimeout, "no-body", "the body did not arrive")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return body, nil
}

// textBefore returns the text before a separator.
func textBefore(text, separator string) string {
	before, _, _ := strings.Cut(text, separator)
	return before
}

// writeAnswer writes an answer within answerTime from now.
func writeAnswer(w http.ResponseWriter, status int, text []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTime))
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may have gone
}

// workSlots bounds how many requests are worked on at once: listing records is work for the store.
type workSlots chan struct{}

// acquire waits for a slot.
func (t workSlots) acquire(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(slotTime)
	defer timer.Stop()
	select {
	case t <- struct{}{}:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return newProblem(http.StatusServiceUnavailable, "busy", "too many requests at once; try again soon")
}

func (t workSlots) release() { <-t }
