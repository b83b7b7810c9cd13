// Command translations compares each page with its twin in Chinese, PAGE.zh-CN.md beside PAGE.md.
//
// The first line of a twin has a digest of the page that it was made from. A page that changed
// since then is reported, so that its twin is brought up to date. The parts that have no language
// are compared too: headings, rows, code, links.
//
//	go run ./scripts/translations              compares all pages
//	go run ./scripts/translations PAGE.md...   compares these
//	go run ./scripts/translations -stamp PAGE.md...   writes the digests of these into their twins
//
// Why not po4a: it keeps the sentences of a translation in another file. Here a twin is a page.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	stamped := flag.Bool("stamp", false, "write the digest of each page into its twin")
	flag.Parse()
	if err := checkPages(*stamped, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "translations:", err)
		os.Exit(1)
	}
}
