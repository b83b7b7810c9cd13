//go:build !unix

package gateway

import "net"

// quiet cannot look without reading here; what is closed shows when it is used.
func quiet(net.Conn) bool { return true }
