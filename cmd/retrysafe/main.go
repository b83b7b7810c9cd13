// Command retrysafe runs the gateway, and a demonstration of what it is for.
package main

import (
	"os"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
