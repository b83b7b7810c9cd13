// Command knots counts the files of packages that cannot be understood one after the other: the
// largest set in which each file uses, directly or by others, what each other declares.
//
//	go run ./scripts/knots . ./sqlstore
//
// With -why it prints which uses hold the largest knot together, the fewest first: moving such a
// declaration to another file may cut it.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	why := flag.Bool("why", false, "print the uses between the files of the largest knot")
	flag.Parse()
	dirs := flag.Args()
	if len(dirs) == 0 {
		dirs = []string{"."}
	}
	for _, dir := range dirs {
		p, err := load(dir)
		if err != nil {
			fmt.Fprintln(os.Stderr, "knots:", err)
			os.Exit(1)
		}
		p.print(os.Stdout, *why)
	}
}
