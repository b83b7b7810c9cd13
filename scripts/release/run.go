package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
)

const usage = "usage: release rehearse | release pages | release tidy | release [-really] VERSION"

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	repo, err := open(".")
	if err != nil {
		return err
	}
	switch {
	case len(args) == 1 && args[0] == "rehearse":
		return rehearse(ctx, repo)
	case len(args) == 1 && args[0] == "pages":
		return rehearsePages(ctx, repo)
	case len(args) == 1 && args[0] == "tidy":
		return tidy(ctx, repo)
	case len(args) == 2 && args[0] == "-really":
		return release(ctx, repo, args[1], true)
	case len(args) == 1 && args[0] != "" && args[0][0] == 'v':
		return release(ctx, repo, args[0], false)
	}
	return errors.New(usage)
}

// say prints a line of progress.
func say(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }
