// Sharded takes orders into tables that are split over several databases. Each order is in one
// transaction with the record of its key, on the shard of the key. See README.md.
//
//	go run ./examples/sharded -shards 'eu-1=postgres://localhost/orders1 eu-2=postgres://localhost/orders2'
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
	shards := flag.String("shards", "eu-1=postgres://localhost/orders1 eu-2=postgres://localhost/orders2", "the shards, each as NAME=URL")
	pause := flag.Duration("pause", 0, "pause inside the transaction, to kill the program in it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := runShop(ctx, *listen, *shards, *pause)
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
