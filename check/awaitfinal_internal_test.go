package check

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// refusingSession is a session with an API that answers 409 for ever.
func refusingSession() (*session, operation) {
	o := (&Options{}).withDefaults()
	s := &session{target: &Target{KeyHeader: "K"}, options: &o, sender: newSender(&o), observed: &observations{}}
	s.sender.client = &http.Client{Transport: roundTripFunc(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusConflict, Body: http.NoBody, Header: http.Header{}}, nil
	})}
	return s, operation{request: Request{URL: "http://127.0.0.1:1", Body: []byte("{}")}}
}

// TestSettleIsBounded: an API that answers 409 for ever gets as many requests as the plan says.
func TestSettleIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, op := refusingSession()
		s.awaitFinal(t.Context(), "a request", op)
		assert.True(t, s.sender.sent.Load() <= maxFinalRequests, "%d requests, the plan says %d", s.sender.sent.Load(), maxFinalRequests)
	})
}

// TestSettleLearns: when the first request was answered with success, and its duplicate is answered
// 409 for the whole patience, no later check waits so long, save for a request that may not have
// ended.
func TestSettleLearns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, op := refusingSession()
		s.awaitFinalAfter(t.Context(), "a duplicate", op, reply{status: http.StatusConflict})
		assert.Equal(t, len(s.observed.reportNotes()), 0, "notes: the first request was not answered with success")
		s.awaitFinalAfter(t.Context(), "a duplicate", op, reply{status: http.StatusCreated})
		assert.Equal(t, len(s.observed.reportNotes()), 1, "notes")
		s.observed.slowestSuccess = time.Second
		sent, start := s.sender.sent.Load(), time.Now()
		s.awaitFinal(t.Context(), "a duplicate", op)
		assert.True(t, s.sender.sent.Load()-sent <= 2, "%d requests once it is known", s.sender.sent.Load()-sent)
		took := time.Since(start)
		assert.True(t, took >= 2*time.Second && took < 3*time.Second, "it waits until a slow first request has ended: %s", took)
		start = time.Now()
		s.awaitFinalFully(t.Context(), "the whole request", op)
		assert.True(t, time.Since(start) >= s.options.Patience, "it waits for the patience: %s", time.Since(start))
	})
}
