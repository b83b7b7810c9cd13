// Dotx-pgx moves money between accounts in PostgreSQL, through pgx. The record of the key is in the
// same transaction as the payment. See README.md.
//
//	go run ./examples/dotx-pgx -postgres postgres://localhost/bank
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
	url := flag.String("postgres", "postgres://localhost/bank", "URL of the database")
	pause := flag.Duration("pause", 0, "pause inside the transaction, to kill the program in it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := runBank(ctx, *listen, *url, *pause)
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
