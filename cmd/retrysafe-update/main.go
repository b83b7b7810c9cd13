// Command retrysafe-update rewrites a program that was written for v0.1.0 of retrysafe, so that it
// compiles with the version after it. Run it while the program still requires v0.1.0, in its
// module:
//
//	go run github.com/retrysafe/retrysafe/cmd/retrysafe-update@v0.2.0 ./...
//	go get github.com/retrysafe/retrysafe@v0.2.0
//
// It moves the fields of options that are grouped now, in literals and in assignments, writes the
// options of a call in place of a Call, rewrites the imports of packages that are in another folder
// now, and prints the files that it has changed.
// What it cannot move is in the changelog.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	dry := flag.Bool("n", false, "print the files that would change, and change none")
	flag.Parse()
	patterns := flag.Args()
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	changed, err := updatePackages(".", patterns, *dry)
	for _, path := range changed {
		fmt.Println(path)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "retrysafe-update:", err)
		os.Exit(1)
	}
}
