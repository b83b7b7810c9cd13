package h1server

import "net"

// readEach is eachRead for connections of every kind.
func readEach(c net.Conn, room func() []byte, got func(n int) bool) error {
	for {
		n, err := c.Read(room())
		if n > 0 && !got(n) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
