// Command retrysafe-advise says which SQL statements repeat harmlessly, and which guard the others
// need.
package main

import (
	"os"

	"github.com/retrysafe/retrysafe/cmd/retrysafe-advise/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
