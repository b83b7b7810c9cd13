// Callback receives the notifications of Alipay, WeChat Pay and Stripe that an order is paid, and
// counts each once. See README.md.
//
//	go run ./examples/callback/provider -init
//	go run ./examples/callback
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
	folder := flag.String("keys", "keys", "folder with the keys of the providers")
	pause := flag.Duration("pause", 0, "pause between the payment and the answer, to kill the program in it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := runShop(ctx, *listen, *folder, *pause)
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
