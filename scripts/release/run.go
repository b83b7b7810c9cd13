package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
)

const usage = "usage: release rehearse | release pages | release tidy | release [-really] VERSION"

func runCommandLine(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	repo, err := openRepo(".")
	if err != nil {
		return err
	}
	switch {
	case len(args) == 1 && args[0] == "rehearse":
		return rehearseInstall(ctx, repo)
	case len(args) == 1 && args[0] == "pages":
		return rehearsePages(ctx, repo)
	case len(args) == 1 && args[0] == "tidy":
		return tidyModules(ctx, repo)
	case len(args) == 2 && args[0] == "-really":
		return releaseVersion(ctx, repo, args[1], true)
	case len(args) == 1 && args[0] != "" && args[0][0] == 'v':
		return releaseVersion(ctx, repo, args[0], false)
	}
	return errors.New(usage)
}

// printProgress prints a line of progress.
func printProgress(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }
