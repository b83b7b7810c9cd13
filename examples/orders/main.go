// Orders is a shop in four parts: a service that takes orders over HTTP, an outbox, and two
// consumers of its messages, one for the stock and one for bonus points. It sends itself orders,
// each up to three times, publishes messages twice, runs out of an article, redrives the dead
// letters, and counts.
//
//	go run ./examples/orders
//	go run ./examples/orders -postgres postgres://localhost/shop -redis redis://localhost -rabbitmq amqp://localhost
//
// The first command needs no servers: records and tables are in SQLite, and the broker is in
// memory. The second has the tables in PostgreSQL, the records of requests and of the points in
// Redis, and RabbitMQ between the parts.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := runProgram(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
