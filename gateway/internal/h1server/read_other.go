//go:build !unix

package h1server

import "net"

// eachRead reads until got returns false or the connection has ended; then it returns nil or an
// error. It reads into what room returns, and calls got with the number of bytes.
func eachRead(c net.Conn, room func() []byte, got func(n int) bool) error {
	return readEach(c, room, got)
}
