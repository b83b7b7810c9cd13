//go:build !unix

package once

import (
	"net"
	"syscall"
)

// rawOf returns nil: only net reads from the kernel here, so bytes that come as a request is
// written may be taken for its answer.
func rawOf(net.Conn) syscall.RawConn { return nil }

func (*meteredConn) hasUnread() bool { return false }

func (*meteredConn) readRaw([]byte) (int, error) { panic("once: there is no raw connection") }
