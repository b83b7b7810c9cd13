package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// pictures returns the pictures that the texts in dir make, by path.
func pictures(dir string) (map[string][]byte, error) {
	texts, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for _, path := range texts {
		src, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		svg, err := draw(string(src))
		if err != nil {
			return nil, fmt.Errorf("%s:%w", path, err)
		}
		all[strings.TrimSuffix(path, ".txt")+".svg"] = svg
	}
	return all, nil
}

// draw returns the picture of a text. Its errors begin with the number of the line.
func draw(src string) ([]byte, error) {
	h, rest, err := readHead(src)
	if err != nil {
		return nil, err
	}
	if h.actors != nil {
		return drawSequence(h, rest)
	}
	return drawGraph(h, rest)
}
