// Command problems writes the pages of the problem codes, docs/problems.
//
// The statuses, the titles and whether a retry is of use are those of the table of codes (code.go
// in the root). problems.txt, beside this program, has the rest in both languages. A code has a
// page of its own, since the address of that page is the type of its problems, which never changes.
//
//	go run ./scripts/problems          lists the pages that differ from the tables
//	go run ./scripts/problems -write   writes them
//
// It leaves the digest in the first line of a Chinese page as it is: go run ./scripts/translations
// -stamp writes it, once somebody has compared both languages.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	write := flag.Bool("write", false, "write the pages")
	flag.Parse()
	wrong, err := compareOrWrite(".", *write)
	if err != nil {
		fmt.Fprintln(os.Stderr, "problems:", err)
		os.Exit(1)
	}
	for _, w := range wrong {
		fmt.Println(w)
	}
	if len(wrong) > 0 {
		fmt.Fprintln(os.Stderr, "problems: go run ./scripts/problems -write writes these pages")
		os.Exit(1)
	}
}
