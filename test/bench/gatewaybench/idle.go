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
// idle one takes of the gateway's memory.
func runIdle(rounds, idle, workers int) error {
	for round := range rounds {
		// new processes each time: what was allocated once is seldom given back
		w, err := startProcesses(workers, "")
		if err != nil {
			return err
		}
		err = w.measureIdle(round, idle)
		w.close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *processes) measureIdle(round, idle int) error {
	for _, s := range w.sides {
		key := func(int) string { return s.name + "-idle-12345678901234" }
		// What a process needs for its work, whatever the number of connections. The first request
		// is alone, since the recipe of nginx refuses those that come meanwhile.
		for _, n := range []int{1, 2000} {
			if err := sendRequests(s, n, min(n, 64), key); err != nil {
				return err
			}
		}
		before, err := s.gateway.residentMemory()
		if err != nil {
			return err
		}
		begun := time.Now()
		all, err := openIdle(s, idle, key(0))
		if err == nil {
			time.Sleep(3 * time.Second) // a collection of garbage may be under way
			var after int64
			if after, err = s.gateway.residentMemory(); err == nil {
				fmt.Printf("%-22s %-10s round %d: %8.2f KB a connection, %d connections, opened in %v\n",
					"idle", s.name, round+1, float64(after-before)/1024/float64(idle), idle, time.Since(begun).Round(time.Second))
			}
		}
		for _, c := range all {
			_ = c.Close()
		}
		if err != nil {
			return err
		}
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
