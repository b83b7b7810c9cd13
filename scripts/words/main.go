// Command words looks for words that comments and pages of this project do not use, and says what
// to write instead. docs/how-we-write.md has the reasons.
//
//	go run ./scripts/words              looks at the whole tree
//	go run ./scripts/words DIR|FILE...  looks at these
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
	found, err := tree(roots)
	if err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(1)
	}
	for _, f := range found {
		fmt.Println(f)
	}
	if len(found) > 0 {
		fmt.Fprintf(os.Stderr, "words: %d found; docs/how-we-write.md says why\n", len(found))
		os.Exit(1)
	}
}
