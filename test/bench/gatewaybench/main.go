// Command gatewaybench compares the gateway on Redis with the usual setup of nginx, Lua and Redis.
// It measures requests per second, and the CPU time a request of the gateway and of Redis, by the
// kernel's accounting. Upstream, gateways and Redis are separate processes; the sides take turns.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	rounds := flag.Int("rounds", 3, "rounds of each side")
	n := flag.Int("n", 60_000, "requests a round")
	conns := flag.Int("c", 64, "connections")
	workers := flag.Int("workers", 2, "processes of nginx, and processors that the gateway may use at once")
	only := flag.String("only", "", "run only these sides, separated by commas: nginx or retrysafe")
	load := flag.String("load", "", "run only the loads whose name contains this text")
	idle := flag.Int("idle", 0, "measure the memory of so many idle connections, and no requests")
	builds := flag.String("builds", "", "compare these programs, built before, with nginx: NAME=PATH, separated by commas")
	flag.Parse()
	var err error
	if *idle > 0 {
		err = runIdle(*rounds, *idle, *workers)
	} else {
		err = runRounds(*rounds, *n, *conns, *workers, *only, *load, *builds)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gatewaybench:", err)
		os.Exit(1)
	}
}
