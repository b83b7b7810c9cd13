// Command release releases every module of the repository under one version, or rehearses it.
//
//	release rehearse               install everything as a stranger does, from a proxy made of the working tree
//	release pages                  run the install commands of the pages alone, a part of the rehearsal
//	release VERSION                show what the release of VERSION would change and tag
//	release -really VERSION        change it, commit it and tag it; nothing is pushed
//	release tidy                   go mod tidy in every module, against the working tree
//
// Why not goreleaser alone: it builds the archives, but tags one module and installs none.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := runCommandLine(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}
