// Outbox-rabbitmq takes orders over HTTP, and a consumer packs each of them once. The row of an
// order and the message about it commit together; a relay publishes the message to RabbitMQ. See
// README.md.
//
//	go run ./examples/outbox-rabbitmq -rabbitmq amqp://localhost
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
	rabbitmq := flag.String("rabbitmq", "amqp://localhost", "URL of RabbitMQ")
	pause := flag.Duration("pause", 0, "pause while an order is packed, to kill the program in it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := runShop(ctx, *listen, *rabbitmq, *pause)
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
