// Command words looks for words that comments and pages of this project do not use, and for names
// of functions that say nothing. It says what to write instead. docs/writing.md has the reasons.
//
//	go run ./scripts/words              looks at the whole tree
//	go run ./scripts/words DIR|FILE...  looks at these
//
// Why not vale: it would have to be installed, and this list is checked by each go test.
package main

import (
	"fmt"
	"os"
)

func main() {
	roots := os.Args[1:]
	if len(roots) == 0 {
		roots = []string{"."}
	}
	found, err := checkTree(roots)
	if err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(1)
	}
	for _, f := range found {
		fmt.Println(f)
	}
	if len(found) > 0 {
		fmt.Fprintf(os.Stderr, "words: %d found; docs/writing.md says why\n", len(found))
		os.Exit(1)
	}
}
