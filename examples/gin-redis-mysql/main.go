// Gin-redis-mysql takes orders with gin. Redis keeps the keys and the answers, and the orders are
// rows of MySQL or MariaDB. See README.md.
//
//	go run ./examples/gin-redis-mysql -mysql 'root@tcp(localhost:3306)/shop'
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
	var c config
	listen := flag.String("listen", "localhost:8080", "address to listen on")
	flag.StringVar(&c.redis, "redis", "redis://localhost:6379/0", "URL of the Redis that keeps keys and answers")
	flag.StringVar(&c.mysql, "mysql", "root@tcp(localhost:3306)/shop", "data source name of the database of the orders")
	flag.DurationVar(&c.pause, "pause", 0, "pause between an order and its answer, to kill the program in it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := runShop(ctx, *listen, c)
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
