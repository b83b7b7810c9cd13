//go:build !unix

package gateway

import "net"

type peeker struct{}

func newPeeker(net.Conn) *peeker { return nil }

// quiet cannot look without reading on this platform; a closed connection shows when it is used.
func (*peeker) quiet() bool { return true }

// hungUp always returns false: this platform cannot tell.
func hungUp(net.Conn) bool { return false }
