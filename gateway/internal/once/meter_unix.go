//go:build unix

package once

import (
	"io"
	"net"
	"os"
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
// connection. The caller holds m.mu.
func (m *meteredConn) hasUnread() bool {
	if m.raw == nil {
		return false
	}
	var b [1]byte
	var err error
	if control := m.raw.Control(func(fd uintptr) {
		for err = syscall.EINTR; err == syscall.EINTR; { //nolint:errorlint // system calls return these as they are
			_, _, err = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		}
	}); control != nil {
		return true
	}
	return err != syscall.EAGAIN //nolint:errorlint // as above
}

// readRaw is Read, as [net.Conn] does it, with the lock held whenever bytes leave the kernel.
func (m *meteredConn) readRaw(p []byte) (n int, err error) {
	var failed error
	waited := m.raw.Read(func(fd uintptr) bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		for n, failed = -1, syscall.EINTR; failed == syscall.EINTR; { //nolint:errorlint // as above
			n, failed = syscall.Read(int(fd), p)
		}
		switch {
		case failed == syscall.EAGAIN: //nolint:errorlint // as above
			return false
		case failed != nil:
			n, err = 0, &net.OpError{Op: "read", Net: "tcp", Source: m.LocalAddr(), Addr: m.RemoteAddr(), Err: os.NewSyscallError("read", failed)}
		case n == 0:
			err = io.EOF
		}
		n, err = m.countRead(p[:n], err)
		return true
	})
	if waited != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.countRead(nil, waited)
	}
	return n, err
}
