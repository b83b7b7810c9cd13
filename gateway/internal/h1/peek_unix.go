//go:build unix

package h1

import (
	"errors"
	"net"
	"syscall"
)

// Peeker looks at a connection without reading from it. It is not safe for concurrent use.
type Peeker struct {
	raw   syscall.RawConn // nil: it cannot be looked at
	look  func(fd uintptr)
	still bool // what look has seen
}

// NewPeeker returns a Peeker for c.
func NewPeeker(c net.Conn) *Peeker {
	p := new(Peeker)
	if s, ok := c.(syscall.Conn); ok {
		p.raw, _ = s.SyscallConn()
	}
	p.look = func(fd uintptr) {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		p.still = errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EWOULDBLOCK)
	}
	return p
}

// Quiet reports whether a connection that should be idle is idle: not closed by the other side, and
// without unexpected bytes. It is not safe for concurrent use.
func (p *Peeker) Quiet() bool {
	if p.raw == nil {
		return true
	}
	p.still = false
	// not Read, which fails after an expired deadline
	err := p.raw.Control(p.look)
	return err == nil && p.still
}

// HungUp reports whether the other side has closed a connection that is not being read.
func HungUp(c net.Conn) bool {
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	_ = raw.Control(func(fd uintptr) {
		// not Read, which would wait for a read that has begun in the meantime
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = n == 0 && err == nil || errors.Is(err, syscall.ECONNRESET)
	})
	return gone
}
