package demo

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// The demo chooses the ports of its processes, since one that is killed restarts on the same port.
// They are below the ranges that systems use for outgoing connections, so that a free port stays
// free until the process listens on it.
const firstPort, lastPort = 10000, 32000

// freeAddrs returns n loopback addresses that are free now.
func freeAddrs(n int) (addrs []string, err error) {
	begin := rand.N(lastPort - firstPort)
	for i := 0; len(addrs) < n; i++ {
		if i == lastPort-firstPort {
			return nil, errors.New("demo: no port of 127.0.0.1 from 10000 to 32000 is free")
		}
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+(begin+i)%(lastPort-firstPort)))
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}
