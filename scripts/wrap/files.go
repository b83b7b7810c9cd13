package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tree wraps all files below roots, or counts their long lines.
func tree(roots []string, check bool) (long int, err error) {
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "testdata") {
					return filepath.SkipDir
				}
				return nil
			}
			n, err := file(path, check)
			long += n
			return err
		})
		if err != nil {
			return long, err
		}
	}
	return long, nil
}

// file wraps one file, or counts its long lines.
func file(path string, check bool) (long int, err error) {
	wrap, lines := goFile, goLines
	switch {
	case strings.HasSuffix(path, ".zh-CN.md"): // a line break would be seen as a space
		return 0, nil
	case strings.HasSuffix(path, ".md"):
		wrap, lines = page, pageLines
	case !strings.HasSuffix(path, ".go"):
		return 0, nil
	}
	was, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	if check {
		for _, n := range lines(was) {
			fmt.Printf("%s:%d\n", path, n)
			long++
		}
		return long, nil
	}
	is, err := wrap(was)
	if err != nil || bytes.Equal(was, is) {
		return 0, err
	}
	return 0, os.WriteFile(path, is, 0o644) //nolint:gosec // source that all may read
}
