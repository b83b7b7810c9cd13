//go:build unix

package once

import (
	"net"
	"syscall"
)

// rawOf returns the connection to the kernel, or nil.
func rawOf(c net.Conn) syscall.RawConn {
	over, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := over.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// hasUnread reports whether the kernel has bytes that were not read, or has seen the end of the
// connection.
func (w *wire) hasUnread() bool {
	if w.raw == nil {
		return false
	}
	var b [1]byte
	var err error
	if control := w.raw.Control(func(fd uintptr) {
		for err = syscall.EINTR; err == syscall.EINTR; { //nolint:errorlint // system calls return these as they are
			_, _, err = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		}
	}); control != nil {
		return true
	}
	return err != syscall.EAGAIN //nolint:errorlint // as above
}
