package gateway_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestTrailersOfTheService tests that duplicates get the trailers that the first client got,
// whether the service announces them or not, and that no client gets those for the gateway.
func TestTrailersOfTheService(t *testing.T) {
	t.Parallel()
	for _, announced := range []string{"", "Trailer: X-Sum\r\n"} {
		u := newRawUpstream(t, func(c net.Conn, _ *http.Request, _ int) bool {
			_, _ = io.WriteString(c, "HTTP/1.1 201 Created\r\n"+announced+"Transfer-Encoding: chunked\r\n\r\n"+
				"4\r\npart\r\n0\r\nX-Sum: 4\r\nIdempotency-Outcome: executed\r\n\r\n")
			return true
		})
		base := before(t, u, retrysafe.Policy{}, 0)
		for _, replayed := range []string{"", "true"} {
			resp, body, err := send(t, base, "POST", "k", "x")
			assert.NoError(t, err, "request")
			assert.Equal(t, fmt.Sprint(resp.StatusCode, body, resp.Header.Get("Idempotency-Replayed")), "201part"+replayed, "answer")
			assert.Equal(t, resp.Trailer, http.Header{"X-Sum": {"4"}}, "announced %q, replayed %q: trailers", announced, replayed)
		}
		assert.Equal(t, u.effects.Load(), int64(1), "effects")
	}
}
