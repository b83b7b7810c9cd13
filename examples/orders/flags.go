package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"
)

// runProgram runs the program and returns the exit code: 0 if everything happened once, 1 if it did
// not or something failed, 2 for a wrong call.
func runProgram(ctx context.Context, args []string, out, errOut io.Writer) int {
	var c config
	flags := flag.NewFlagSet("orders", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.StringVar(&c.postgres, "postgres", "", "URL of a PostgreSQL database for the tables; empty: SQLite")
	flags.StringVar(&c.redis, "redis", "", "URL of a Redis for the records; empty: SQLite")
	flags.StringVar(&c.rabbitmq, "rabbitmq", "", "URL of a RabbitMQ; empty: a broker in memory")
	flags.StringVar(&c.dir, "dir", "", "where SQLite's files are; empty: a temporary directory, which is removed")
	flags.IntVar(&c.orders, "orders", 200, "how many orders")
	flags.DurationVar(&c.limit, "limit", 2*time.Minute, "give up after")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err == nil && (flags.NArg() > 0 || c.orders < 20):
		fmt.Fprintln(errOut, "orders: there are no arguments but flags, and -orders is 20 or more")
		return 2
	case err != nil:
		return 2
	}
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	if err := runStory(ctx, c, out); err != nil {
		fmt.Fprintln(errOut, "orders:", err)
		return 1
	}
	return 0
}

// config has the values of the flags.
type config struct {
	postgres, redis, rabbitmq, dir string
	orders                         int
	limit                          time.Duration
}
