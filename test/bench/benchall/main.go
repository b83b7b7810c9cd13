package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	rounds := flag.Int("rounds", 5, "rounds of each program")
	only := flag.String("only", "", "comparisons to run, separated by commas; default: all")
	quick := flag.Bool("quick", false, "one short round of each: whether the programs work, not how fast they are")
	write := flag.Bool("write", false, "write the tables into docs/benchmarks.md")
	root := flag.String("root", "../..", "the root of the repository")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *quick {
		*rounds = 1
	}
	if err := runComparisons(ctx, &job{root: *root, rounds: *rounds, quick: *quick, log: os.Stderr}, *only, *write); err != nil {
		fmt.Fprintln(os.Stderr, "benchall:", err)
		os.Exit(1)
	}
}
