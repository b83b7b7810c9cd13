package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func runComparisons(ctx context.Context, j *job, only string, write bool) error {
	picked, err := selectComparisons(comparisons, only)
	if err != nil {
		return err
	}
	begun := time.Now()
	for i, c := range picked {
		fmt.Fprintf(j.log, "%d of %d: %s, after %v\n", i+1, len(picked), c.name, time.Since(begun).Round(time.Second))
		got, err := j.measureComparison(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		table, err := c.renderTable(got)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		table += "\n" + j.measuredAs(c)
		fmt.Printf("%s\n\n%s\n", c.name, table)
		if !write {
			continue
		}
		if c.picture != nil {
			if err := j.writeChart(c.picture, got); err != nil {
				return err
			}
		}
		// after each comparison, so that an interrupted run keeps what it has
		for _, page := range []string{"benchmarks.md", "benchmarks.zh-CN.md"} {
			if err := writeTable(filepath.Join(j.root, "docs", page), c.name, table); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeTable writes a table into a page.
func writeTable(page, name, table string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	if text, err = replaceTable(text, name, table); err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, text, 0o644)
}

// selectComparisons returns the comparisons with these names, or all.
func selectComparisons(all []comparison, names string) (picked []comparison, err error) {
	if names == "" {
		return all, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		found := false
		for _, c := range all {
			if c.name == name {
				picked, found = append(picked, c), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no comparison %q; -only takes %s", name, strings.Join(namesOf(all), ", "))
		}
	}
	return picked, nil
}

func namesOf(all []comparison) (names []string) {
	for _, c := range all {
		names = append(names, c.name)
	}
	return names
}

// measuredAs says where and how a table was measured.
func (j *job) measuredAs(c comparison) string {
	rounds := max(j.roundsOf(c), c.inner)
	return fmt.Sprintf("*%d cores (%s), %s, %s, %s; median of %d (least–most);\n`go run ./benchall -only %s` in `test/bench`.*",
		runtime.NumCPU(), processorName(), runtime.GOOS+"/"+runtime.GOARCH, runtime.Version(), time.Now().UTC().Format(time.DateOnly), rounds, c.name)
}

// processorName returns the name of the processor, as far as the system tells.
func processorName() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
