package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/retrysafe/retrysafe/scripts/internal/source"
)

// wrapTree wraps all files below roots, or counts their long lines.
func wrapTree(roots []string, check bool) (long int, err error) {
	err = source.Walk(roots, func(path string, was []byte) error {
		wrap, lines := wrapPage, longPageLines
		if source.IsGo(path) {
			wrap, lines = wrapGoFile, longGoLines
		}
		if check {
			for _, n := range lines(was) {
				fmt.Printf("%s:%d\n", path, n)
				long++
			}
			return nil
		}
		is, err := wrap(was)
		if err != nil || bytes.Equal(was, is) {
			return err
		}
		return os.WriteFile(path, is, 0o644)
	})
	return long, err
}
