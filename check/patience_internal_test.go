package check

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestNoAnswer: an API that never answers ends with the patience.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := Examine(ctx, Target{Request: Request{URL: server.URL, Body: []byte("{}")}}, &Options{Patience: 10 * time.Millisecond})
	assert.True(t, err != nil && ctx.Err() == nil, "the examination ends by itself: %v", err)
	assert.Contains(t, err.Error(), "no answer within 10ms", "error")
}

// TestBurstOnFewConnections: a service that accepts one connection at a time gets the last byte of
// its request although the others wait for their connections.
func TestBurstOnFewConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var o Options
		o = o.withDefaults()
		s := &session{target: &Target{KeyHeader: "K"}, options: &o, sender: newSender(&o)}
		slot := make(chan struct{}, 1)
		s.sender.client = &http.Client{Transport: roundTripFunc(func(r *http.Request) (*http.Response, error) {
			slot <- struct{}{} // the connection
			defer func() { <-slot }()
			body := new(bytes.Buffer)
			_, err := body.ReadFrom(r.Body)
			return &http.Response{StatusCode: 200, Body: http.NoBody, Header: http.Header{}}, err
		})}
		op := operation{request: Request{URL: "http://" + net.JoinHostPort("127.0.0.1", "1"), Body: []byte("{}")}, keys: []string{"k"}}
		for _, r := range s.sendAtOnce(t.Context(), []operation{op, op, op}) {
			assert.NoError(t, r.err, "answer")
		}
	})
}
