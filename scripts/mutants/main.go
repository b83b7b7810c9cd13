// Command mutants puts known mistakes into a copy of the tree, one at a time, and sees that a test
// finds each.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}
