package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// runMutants runs those whose names have one of the words, or all.
func runMutants(words []string) error {
	dir, err := os.MkdirTemp("", "retrysafe-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := copyTree(dir); err != nil {
		return fmt.Errorf("copy the tree: %w", err)
	}
	var lived []string
	for _, m := range mutants {
		if !m.matches(words) {
			continue
		}
		began := time.Now()
		err := m.runTests(dir)
		fmt.Printf("%-50s %5.0f s  %s\n", m.name, time.Since(began).Seconds(), verdictText(err))
		if err != nil {
			lived = append(lived, m.name)
		}
	}
	if len(lived) > 0 {
		return fmt.Errorf("%d were not found: %s", len(lived), strings.Join(lived, "; "))
	}
	return nil
}

func verdictText(err error) string {
	if err == nil {
		return "found"
	}
	return err.Error()
}
