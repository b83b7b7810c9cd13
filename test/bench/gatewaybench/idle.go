package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// runIdle opens connections to each gateway, on which one request was answered, and prints what an
// idle one takes of the gateway's memory. The structures that nginx has for its connections from
// its start are counted: those of a start for as many, less those of a start for the usual number.
func runIdle(rounds, idle, workers int) error {
	for round := range rounds {
		// new processes each time: what was allocated once is seldom given back
		few, err := startProcesses(workers, usualConnections, "")
		if err != nil {
			return err
		}
		before, err := few.memoryAtWork()
		few.close()
		if err != nil {
			return err
		}
		many, err := startProcesses(workers, usualConnections+idle, "")
		if err != nil {
			return err
		}
		err = many.measureIdle(round, idle, before)
		many.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// idleKey is the key of all requests to a side.
func idleKey(s *side) string { return s.name + "-idle-12345678901234" }

// memoryAtWork returns the memory of each gateway after some requests: what a process needs for its
// work, whatever the number of connections.
func (w *processes) memoryAtWork() (map[string]int64, error) {
	memory := map[string]int64{}
	for _, s := range w.sides {
		// The first request is alone, since the recipe of nginx refuses those that come meanwhile.
		for _, n := range []int{1, 2000} {
			if err := sendRequests(s, n, min(n, 64), func(int) string { return idleKey(s) }); err != nil {
				return nil, err
			}
		}
		var err error
		if memory[s.name], err = s.gateway.residentMemory(); err != nil {
			return nil, err
		}
	}
	return memory, nil
}

func (w *processes) measureIdle(round, idle int, before map[string]int64) error {
	if _, err := w.memoryAtWork(); err != nil {
		return err
	}
	for _, s := range w.sides {
		all, err := openIdle(s, idle, idleKey(s))
		var after int64
		if err == nil {
			time.Sleep(3 * time.Second) // a collection of garbage may be under way
			after, err = s.gateway.residentMemory()
		}
		if err == nil {
			err = sendRequest(all[0], make([]byte, 8192), idleKey(s)) // the oldest is still open
		}
		for _, c := range all {
			_ = c.Close()
		}
		if err != nil {
			return err
		}
		fmt.Printf("%-22s %-10s round %d: %8.2f KB a connection, %d connections\n",
			"idle", s.name, round+1, float64(after-before[s.name])/1024/float64(idle), idle)
	}
	return nil
}

// openIdle opens connections, and sends one request on each.
func openIdle(s *side, n int, key string) (all []net.Conn, err error) {
	buf := make([]byte, 8192)
	for range n {
		conn, err := net.Dial("tcp", s.addr) //nolint:noctx // on loopback
		if err != nil {
			return all, err
		}
		all = append(all, conn)
		if err := sendRequest(conn, buf, key); err != nil {
			return all, err
		}
	}
	return all, nil
}

// residentMemory returns the memory of the process and its children in bytes.
func (s *server) residentMemory() (sum int64, err error) {
	for _, pid := range s.processIDs() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return 0, fmt.Errorf("memory, which Linux alone tells: %w", err)
		}
		_, rest, _ := strings.Cut(string(text), "VmRSS:")
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			return 0, fmt.Errorf("the status of process %d has no VmRSS", pid)
		}
		kib, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += kib * 1024
	}
	return sum, nil
}
