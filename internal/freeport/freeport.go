// Package freeport finds ports for servers that are started as programs of their own, and so are
// told theirs.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The ports that are given lie below those that systems give to connections and to listeners that
// ask for any (from 32768 on Linux, from 49152 elsewhere): those come and go all the time, and one
// of them would be taken before the server has started.
const first, last = 10000, 32000

var (
	mu   sync.Mutex
	next = first + rand.IntN(last-first) // other processes do the same beside this one
)

// Get returns a port of 127.0.0.1 that nobody listens on now, and that no process has got from here
// and may still use: tests of several packages run at once, and a server takes a while until it
// listens.
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
