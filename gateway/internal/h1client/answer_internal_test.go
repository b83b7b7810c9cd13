package h1client

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// answers has answers that usualAnswer parses, and answers that it leaves to net/http.
var answers = []struct {
	text string
	ours bool
}{
	{"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nConnection: keep-alive\r\nContent-Length: 4\r\n\r\nbody", true},
	{"HTTP/1.1 500 \r\ncontent-length: 0\r\nX-Two: 1\r\nX-Two: 2\r\nKeep-Alive: timeout=5\r\n\r\n", true},
	{"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", false},
	{"HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n", false},
	{"HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n", false},
	{"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n", false},
	{"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false},
	{"HTTP/1.1 200 OK\r\n\r\n", false},
	{"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", false},
	{"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n", false},
	{"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", false},
	{"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", false},
	{"HTTP/1.1 200 OK\r\nPragma: no-cache\r\nContent-Length: 0\r\n\r\n", false},
	{"garbage\r\n\r\n", false},
}

func TestUsualAnswer(t *testing.T) {
	t.Parallel()
	for _, tt := range answers {
		end := strings.Index(tt.text, "\r\n\r\n") + 2
		resp := usualAnswer(tt.text[:end])
		assert.Equal(t, resp != nil, tt.ours, "%q", tt.text)
		if resp != nil {
			sameAnswer(t, tt.text, resp)
		}
	}
}

func sameAnswer(t *testing.T, text string, resp *http.Response) {
	t.Helper()
	want, err := http.ReadResponse(bufio.NewReader(strings.NewReader(text)), &http.Request{Method: http.MethodPost})
	assert.NoError(t, err, "net/http refuses %q", text)
	defer want.Body.Close()
	delete(want.Header, "Connection")
	delete(want.Header, "Keep-Alive")
	assert.Equal(t, fmt.Sprint(resp.StatusCode, resp.ContentLength, resp.Header), fmt.Sprint(want.StatusCode, want.ContentLength, want.Header), "%q", text)
	assert.Equal(t, fmt.Sprint(want.Close, len(want.TransferEncoding), len(want.Trailer)), "false 0 0", "%q", text)
}

// FuzzUsualAnswer checks that net/http reads the answers that usualAnswer parses in the same way.
func FuzzUsualAnswer(f *testing.F) {
	for _, tt := range answers {
		f.Add(tt.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		end := strings.Index(text, "\r\n\r\n")
		if end < 0 {
			return
		}
		if resp := usualAnswer(text[:end+2]); resp != nil {
			sameAnswer(t, text, resp)
		}
	})
}
