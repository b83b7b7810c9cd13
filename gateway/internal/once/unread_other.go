//go:build !unix

package once

import (
	"net"
	"syscall"
)

// rawOf returns nil: only net reads from the kernel here, so bytes that come as a request is
// written may be taken for its answer.
func rawOf(net.Conn) syscall.RawConn { return nil }

func (*wire) hasUnread() bool { return false }
