package h1server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// requests has requests that the fast path serves, and requests that it leaves to net/http.
var requests = []struct {
	text string
	ours bool
}{
	{"POST /orders HTTP/1.1\r\nHost: shop.example\r\nIdempotency-Key: k\r\nContent-Length: 4\r\n\r\nbody", true},
	{"POST /orders?a=b&c=%20 HTTP/1.1\r\nHost: shop.example:80\r\nX-Two: 1\r\nx-two:  2 \r\nContent-Length: 0\r\n\r\n", true},
	{"DELETE /orders/7? HTTP/1.1\r\nHost: [::1]:8080\r\nX-Text: caf\xc3\xa9\t!\r\n\r\nPOST / HTTP/1.1", true},
	{"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nxy", true},
	{"GET /a?b=c HTTP/1.1\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n", true},
	{"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Two\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false},
	{"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"POST / HTTP/1.0\r\nHost: a\r\n\r\n", false},
	{"POST //a HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"POST http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"POST /%2F HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"POST /a;b HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"POST / HTTP/1.1\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: a b\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\nx", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\nx", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\nx", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: a\r\n folded: x\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nX-Space : x\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nX-Control: \x01\r\n\r\n", false},
	{"POST / HTTP/1.1\nHost: a\n\n", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nPragma: no-cache\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", false},
	{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false},
}

func TestWholeRequest(t *testing.T) {
	t.Parallel()
	for _, tt := range requests {
		r, length, ok := wholeRequest(new(http.Request), []byte(tt.text))
		assert.Equal(t, ok && r != nil, tt.ours, "%q", tt.text)
		if tt.ours {
			sameRequest(t, []byte(tt.text), r, length)
		}
	}
	whole := requests[0].text
	for n := range len(whole) {
		r, length, ok := wholeRequest(new(http.Request), []byte(whole[:n]))
		assert.True(t, r == nil && (!ok || length == len(whole)), "the first %d bytes", n)
	}
}

// sameRequest fails if net/http reads b differently.
func sameRequest(t *testing.T, b []byte, r *http.Request, length int) {
	t.Helper()
	in := bufio.NewReader(bytes.NewReader(b))
	want, err := http.ReadRequest(in)
	assert.NoError(t, err, "net/http refuses %q", b)
	say := func(r *http.Request) string {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err, "body")
		return fmt.Sprintf("%s %q %q %q %q %v %d %q %v %d %d", r.Method, r.URL, r.URL.RawPath, r.RequestURI, r.Host, r.Header, r.ContentLength, body,
			r.Close, len(r.TransferEncoding), len(r.Trailer))
	}
	assert.Equal(t, say(r), say(want), "%q", b)
	left, _ := io.ReadAll(in)
	assert.Equal(t, len(b)-len(left), length, "the length of %q", b)
}

// FuzzWholeRequest checks that net/http reads the requests that the fast path serves in the same
// way.
func FuzzWholeRequest(f *testing.F) {
	for _, tt := range requests {
		f.Add([]byte(tt.text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, length, ok := wholeRequest(new(http.Request), b); ok && r != nil {
			sameRequest(t, b, r, length)
		}
	})
}
