// Command wrap breaks comments and pages into lines of at most 100 columns.
//
//	go run ./scripts/wrap          changes the files of the tree
//	go run ./scripts/wrap -check   lists the lines that are too long, and fails if there are any
//
// Why not lll and prettier: the one finds long lines of Go and breaks none, the other needs node.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	check := flag.Bool("check", false, "change nothing, and list the lines that are too long")
	flag.Parse()
	roots := flag.Args()
	if len(roots) == 0 {
		roots = []string{"."}
	}
	long, err := wrapTree(roots, *check)
	if err != nil {
		fmt.Fprintln(os.Stderr, "wrap:", err)
		os.Exit(1)
	}
	if long > 0 {
		fmt.Fprintf(os.Stderr, "wrap: %d lines have more than %d columns\n", long, columns)
		os.Exit(1)
	}
}
