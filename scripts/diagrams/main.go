package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(filepath.Join("docs", "diagrams")); err != nil {
		fmt.Fprintln(os.Stderr, "diagrams:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	all, err := pictures(dir)
	if err != nil {
		return err
	}
	for path, svg := range all {
		if err := os.WriteFile(path, svg, 0o644); err != nil {
			return err
		}
	}
	return nil
}
