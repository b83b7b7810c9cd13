package mcpidem_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/retrysafe/retrysafe/adapters/mcpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// loser loses the reply of the first call of a tool, after the server has answered it.
type loser struct{ lost atomic.Bool }

func (l *loser) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && bytes.Contains(body, []byte(`"tools/call"`)) && !l.lost.Swap(true) {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return nil, errors.New("connection reset by peer")
	}
	return resp, err
}

// TestLostReply: the reply of a call is lost on its way over HTTP. The agent connects again and
// gets the result; the tool ran once.
func TestLostReply(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		d := newDesk(t, nil, nil, nil)
		s := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return d.server }, nil))
		t.Cleanup(s.Close)
		l := new(loser)
		connect := func() *mcp.ClientSession {
			return joinBy(t, &mcp.StreamableClientTransport{
				Endpoint: s.URL, HTTPClient: &http.Client{Transport: l}, DisableStandaloneSSE: true, MaxRetries: -1,
			}, version, nil)
		}
		_, err := call(t, connect(), params("k", `{}`))
		assert.True(t, err != nil && l.lost.Load(), "%s: the reply is lost: %v", version, err)
		res := do(t, connect(), "k", `{}`)
		assert.True(t, says(res) == "run 1" && mcpidem.Replayed(res), "%s: the repeat: %s", version, says(res))
		assert.Equal(t, d.runs.Load(), int64(1), "%s: runs", version)
	}
}
