// Flood sends votes as fast as it can: every voter votes again and again, for both sides. It prints
// how often it got which answer.
//
//	go run ./examples/vote-and-flood/flood -voters 100 -requests 5000
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/signal"
	"slices"
)

func main() {
	f := flood{choices: []string{"tea", "coffee"}, answers: map[string]int{}}
	flag.StringVar(&f.url, "url", "http://localhost:8080/votes", "where to vote")
	flag.StringVar(&f.poll, "poll", "drink", "the poll; with %d in it, a new poll for each request")
	flag.IntVar(&f.voters, "voters", 100, "number of voters")
	requests := flag.Int("requests", 5000, "number of requests")
	workers := flag.Int("workers", 32, "requests at a time")
	flag.Parse()
	if f.voters < 1 || *workers < 1 {
		log.Fatal("-voters and -workers: at least 1")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	f.sendAll(ctx, *requests, *workers)
	stop()
	for _, answer := range slices.Sorted(maps.Keys(f.answers)) {
		fmt.Printf("%7d %s\n", f.answers[answer], answer)
	}
}
