//go:build !unix

package h1

import "net"

// Peeker cannot look at connections on this platform.
type Peeker struct{}

// NewPeeker returns nil.
func NewPeeker(net.Conn) *Peeker { return nil }

// Quiet cannot look without reading on this platform; a closed connection shows when it is used.
func (*Peeker) Quiet() bool { return true }

// HungUp always returns false: this platform cannot tell.
func HungUp(net.Conn) bool { return false }
