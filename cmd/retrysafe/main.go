// Command retrysafe runs the gateway, a demonstration of its purpose, and commands for operators.
package main

import (
	"os"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/drivers"
)

func main() { os.Exit(cli.Main(drivers.All(), os.Args[1:], os.Stdout, os.Stderr)) }
