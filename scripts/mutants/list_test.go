package main

import (
	"os"
	"strings"
	"testing"
)

// TestMutantsFit: what each mistake changes is in the tree, once.
func TestMutantsFit(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		b, err := os.ReadFile("../../" + m.file)
		if err != nil || strings.Count(string(b), m.old) != 1 {
			t.Errorf("%s: %v, %d times in %s", m.name, err, strings.Count(string(b), m.old), m.file)
		}
	}
}
