package demo

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// pageAddr is the default address of the page. It is easy to remember and rarely in use.
const pageAddr = "127.0.0.1:8484"

// loopbackFlag is a flag for an address on this machine only, because anyone who can reach the page
// can kill processes.
type loopbackFlag struct {
	addr  string
	given bool
}

func (l *loopbackFlag) String() string { return l.addr }

func (l *loopbackFlag) Type() string { return "address" }

func (l *loopbackFlag) Set(s string) error {
	host, _, err := net.SplitHostPort(s)
	if err != nil {
		return errors.New("write it like " + pageAddr)
	}
	if !isLoopback(host) {
		return errors.New("the page can kill processes, so it listens on loopback only; write it like " + pageAddr)
	}
	l.addr, l.given = s, true
	return nil
}

// isLoopback reports whether a host, without its port, names this machine and cannot be made to
// name another.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// listen listens on the address. If the default port is in use, it takes any free port. If the user
// has chosen the port, it fails instead.
func (l *loopbackFlag) listen() (net.Listener, error) {
	listener, err := net.Listen("tcp", l.addr)
	if err != nil && !l.given {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, fmt.Errorf("demo: cannot listen on %s: %w; choose another --listen", l.addr, err)
	}
	return listener, nil
}
