package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// digest is the first line of a Chinese page, which go run ./scripts/translations -stamp writes.
var digest = regexp.MustCompile(`^<!-- translated from .* -->\n`)

// compareOrWrite compares the pages below root with the tables, or writes them. It returns the
// pages that differ.
func compareOrWrite(root string, write bool) (wrong []string, err error) {
	all, err := parseProblems(texts)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, "docs", "problems")
	want := map[string]bool{}
	for _, l := range []language{english, chinese} {
		pages := map[string]string{}
		for i := range all {
			pages[all[i].code.String()+l.file] = l.page(&all[i])
		}
		index := "README" + l.file
		if pages[index], err = withTable(filepath.Join(dir, index), l.table(all)); err != nil {
			return nil, err
		}
		for name, text := range pages {
			path := filepath.Join(dir, name)
			want[path] = true
			is, err := os.ReadFile(path)
			if err != nil && !os.IsNotExist(err) {
				return nil, err
			}
			if text = digest.FindString(string(is)) + text; string(is) == text {
				continue
			}
			if !write {
				wrong = append(wrong, path)
			} else if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				return nil, err
			}
		}
	}
	have, err := filepath.Glob(filepath.Join(dir, "*.md"))
	for _, path := range have {
		if !want[path] {
			wrong = append(wrong, path+", which no code has")
		}
	}
	return wrong, err
}

// withTable returns the list of problems with other rows, and without its digest.
func withTable(path, rows string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	rest := digest.ReplaceAllString(string(text), "")
	head, old, ok := strings.Cut(rest, made)
	names, _, ruled := strings.Cut(old, "|---|---|---|---|\n")
	_, tail, ended := strings.Cut(old, tableEnd)
	if !ok || !ruled || !ended {
		return "", fmt.Errorf("%s has no table of four columns between %q and %q", path, made, tableEnd)
	}
	return head + made + names + "|---|---|---|---|\n" + rows + "\n" + tableEnd + tail, nil
}
