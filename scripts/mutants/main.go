// Command mutants puts known mistakes into a copy of the tree, one at a time, and sees that a test
// finds each.
//
// Why not a mutation tester: those that exist change operators of Go. These are mistakes that
// people make in this code, in Go, Lua and SQL, and some of them only a real server shows.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := runMutants(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}
