// Vote-and-flood is a page with a vote: one for each voter, whatever is sent, and only so many
// requests from each address. The program in flood attacks it. See README.md.
//
//	go run ./examples/vote-and-flood
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"
)

func main() {
	listen := flag.String("listen", "localhost:8080", "address to listen on")
	redis := flag.String("redis", "redis://localhost:6379/0", "URL of the Redis that keeps keys and counts")
	rate := flag.Float64("rate", 50, "votes that an address may send in a second")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := runPoll(ctx, *listen, *redis, *rate)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// listenAndServe serves until ctx ends, and returns when the requests in flight are answered.
func listenAndServe(ctx context.Context, address string, h http.Handler) error {
	server := &http.Server{Addr: address, Handler: h, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return server.Shutdown(context.WithoutCancel(ctx))
	}
}
