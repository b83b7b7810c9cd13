// Command demo is the command retrysafe without its drivers: it keeps records in memory or in
// SQLite files, and compiles in half the time. Without a subcommand it runs the demonstration:
//
//	go run ./cmd/retrysafe/demo --once
package main

import (
	"os"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

func main() {
	args := os.Args[1:]
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		args = append([]string{"demo"}, args...)
	}
	os.Exit(cli.Main(cli.Drivers{}, args, os.Stdout, os.Stderr))
}
