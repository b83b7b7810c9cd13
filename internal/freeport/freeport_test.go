package freeport_test

import (
	"net"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
)

func TestGet(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for range 50 {
		port, err := freeport.Get()
		assert.NoError(t, err, "Get")
		assert.True(t, !seen[port], "port %s is given once", port)
		seen[port] = true
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		assert.NoError(t, err, "listen on %s", port)
		defer l.Close()
	}
}
