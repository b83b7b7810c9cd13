package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// files are the lines of directory api.
type files struct{ released, next, removed []string }

func run(root string, write bool) (differences []string, err error) {
	now, err := exported(root)
	if err != nil {
		return nil, err
	}
	f, err := read(filepath.Join(root, "api"))
	if err != nil {
		return nil, err
	}
	next, removed := minus(now, f.released), minus(f.released, now)
	if write {
		for name, lines := range map[string][]string{"next.txt": next, "removed.txt": removed} {
			if err := os.WriteFile(filepath.Join(root, "api", name), []byte(text(lines)), 0o644); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	for _, d := range []struct {
		what       string
		have, want []string
	}{
		{"new, and not in next.txt: ", f.next, next},
		{"in next.txt, and not in the tree: ", next, f.next},
		{"removed, and not in removed.txt: ", f.removed, removed},
		{"in removed.txt, and not removed: ", removed, f.removed},
	} {
		for _, line := range minus(d.want, d.have) {
			differences = append(differences, d.what+line)
		}
	}
	return differences, nil
}

func read(dir string) (f files, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return f, err
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			return f, err
		}
		lines := slices.DeleteFunc(strings.Split(string(content), "\n"), func(s string) bool { return s == "" })
		switch filepath.Base(name) {
		case "next.txt":
			f.next = lines
		case "removed.txt":
			f.removed = lines
		default:
			f.released = append(f.released, lines...)
		}
	}
	slices.Sort(f.released)
	return f, nil
}

func text(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// minus returns the lines of a that b does not have.
func minus(a, b []string) (rest []string) {
	in := make(map[string]bool, len(b))
	for _, l := range b {
		in[l] = true
	}
	for _, l := range a {
		if !in[l] {
			rest = append(rest, l)
		}
	}
	return rest
}
