package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	write := flag.Bool("write", false, "write next.txt and removed.txt")
	flag.Parse()
	lost, err := run(".", *write)
	if err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
	for _, l := range lost {
		fmt.Println(l)
	}
	if len(lost) > 0 {
		fmt.Fprintln(os.Stderr, "api: the files in api differ from the tree; -write writes them, and git diff shows what changes for users")
		os.Exit(1)
	}
}
