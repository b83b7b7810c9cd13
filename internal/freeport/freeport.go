// Package freeport finds ports for servers that run as separate programs and so need a port in
// advance.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The ports are below those that systems assign to connections and to listeners without a fixed
// port (from 32768 on Linux, from 49152 elsewhere). The system uses those all the time, so one of
// them could be taken before the server has started.
const first, last = 10000, 32000

var (
	mu   sync.Mutex
	next = first + rand.IntN(last-first) // other processes search at the same time
)

// Get returns a port of 127.0.0.1 that is not in use now, and that Get has not given to a living
// process. Tests of several packages run concurrently, and a server takes a while until it listens.
func Get() (string, error) {
	mu.Lock()
	defer mu.Unlock()
	for range last - first {
		if next++; next >= last {
			next = first
		}
		port := strconv.Itoa(next)
		if !reserve(port) {
			continue
		}
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return "", errors.New("no port of 127.0.0.1 from 10000 to 32000 is free")
}
