//go:build unix

package h1server

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// eachRead reads until got returns false or the connection has ended; then it returns nil or an
// error. It reads into what room returns, and calls got with the number of bytes.
//
// A read that does not fill its room has emptied the socket. So eachRead then waits until the
// connection is ready again, without the read that net.Conn would make first and that would find
// nothing. That works since the poller reports what arrives after a read, and since RawConn.Read
// forgets no report between two calls of its function: a function that had found nothing could
// otherwise miss what arrives in between.
func eachRead(c net.Conn, room func() []byte, got func(n int) bool) error {
	sys, ok := c.(syscall.Conn)
	if !ok {
		return readEach(c, room, got)
	}
	raw, err := sys.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Read(func(fd uintptr) (done bool) {
		for {
			b := room()
			n, err := syscall.Read(int(fd), b)
			switch {
			case errors.Is(err, syscall.EINTR):
			case errors.Is(err, syscall.EAGAIN):
				return false
			case err != nil:
				failed = err
				return true
			case n == 0:
				failed = io.EOF
				return true
			case !got(n):
				return true
			case n < len(b):
				return false
			}
		}
	})
	return errors.Join(err, failed)
}
