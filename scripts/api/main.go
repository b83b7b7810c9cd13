// Command api compares the exported names of all packages with those of the releases.
//
//	go run ./scripts/api          lists the differences from next.txt and removed.txt
//	go run ./scripts/api -write   writes these two files
//
// Why not gorelease or apidiff: they compare with a published version, and there is none yet.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	write := flag.Bool("write", false, "write next.txt and removed.txt")
	flag.Parse()
	lost, err := compareOrWrite(".", *write)
	if err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
	for _, l := range lost {
		fmt.Println(l)
	}
	if len(lost) > 0 {
		fmt.Fprintln(os.Stderr, "api: the files in scripts/api differ from the tree; -write writes them, and git diff shows what changes for users")
		os.Exit(1)
	}
}
