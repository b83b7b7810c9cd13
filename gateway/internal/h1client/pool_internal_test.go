package h1client

import (
	"net"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestPoolClosesFirst: a connection that a common server is about to close as idle (gunicorn after
// 2 s) is not used again. The time of its last use is moved, so that nothing waits.
func TestPoolClosesFirst(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err, "listen")
	defer l.Close()
	for idle, want := range map[time.Duration]bool{0: true, 1900 * time.Millisecond: false} {
		p := NewPool(&net.Dialer{})
		c, err := p.Dial(t.Context(), l.Addr().String())
		assert.NoError(t, err, "connect")
		p.keep(c)
		c.since = c.since.Add(-idle)
		if idle == 0 {
			c.since = time.Now().Add(time.Minute) // also on a machine that stops here
		}
		assert.Equal(t, p.Kept(l.Addr().String()) == c, want, "the connection is used again after %v", idle)
		p.Close()
	}
}
