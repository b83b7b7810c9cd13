//go:build unix

package gateway

import (
	"errors"
	"net"
	"syscall"
)

// quiet tells whether a connection that should be idle is: neither closed by the other side nor with bytes that nobody asked for.
func quiet(c net.Conn) bool {
	s, ok := c.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	still := false
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		still = errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EWOULDBLOCK)
		return true // whatever it is, do not wait
	})
	return err == nil && still
}
