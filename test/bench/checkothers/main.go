package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	only := flag.String("only", "", "examine one alone: fiber, express or retrysafe")
	write := flag.Bool("write", false, "write the report into docs/check.md")
	root := flag.String("root", "../..", "the root of the repository")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := runChecks(ctx, *only, *write, *root); err != nil {
		fmt.Fprintln(os.Stderr, "checkothers:", err)
		os.Exit(1)
	}
}
