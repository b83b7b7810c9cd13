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
		if !reservePort(port) {
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

// GetRow returns n ports in a row, each as Get would. A program that picks a port of a range by
// itself would otherwise take one of another server, while that server is being restarted.
func GetRow(n int) ([]string, error) {
	var row []string
	for tries := 0; len(row) < n; tries++ {
		port, err := Get()
		if err != nil || tries > last-first {
			return nil, errors.Join(err, errors.New("there are not so many free ports in a row"))
		}
		if len(row) > 0 && parsePort(port) != parsePort(row[len(row)-1])+1 {
			row = row[:0]
		}
		row = append(row, port)
	}
	return row, nil
}

func parsePort(port string) int {
	n, _ := strconv.Atoi(port) // Get has made it of a number
	return n
}
