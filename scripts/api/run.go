package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// files are the lines of the files beside this program. The paths of released are those of today:
// moved.txt has the folders of packages that were elsewhere in a release.
type files struct{ released, next, removed []string }

func compareOrWrite(root string, write bool) (differences []string, err error) {
	now, err := exportedNames(root)
	if err != nil {
		return nil, err
	}
	f, err := readLists(filepath.Join(root, "scripts", "api"))
	if err != nil {
		return nil, err
	}
	next, removed := subtractLines(now, f.released), subtractLines(f.released, now)
	if write {
		for name, lines := range map[string][]string{"next.txt": next, "removed.txt": removed} {
			if err := os.WriteFile(filepath.Join(root, "scripts", "api", name), []byte(joinLines(lines)), 0o644); err != nil {
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
		for _, line := range subtractLines(d.want, d.have) {
			differences = append(differences, d.what+line)
		}
	}
	return differences, nil
}

func readLists(dir string) (f files, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return f, err
	}
	var moved []string // old and new path in turn
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
		case "moved.txt":
			for _, line := range lines {
				from, to, _ := strings.Cut(line, " ")
				for _, end := range []string{"/", ":"} { // a package below it, or the package
					moved = append(moved, "\n"+module+"/"+from+end, "\n"+module+"/"+to+end)
				}
			}
		default:
			f.released = append(f.released, lines...)
		}
	}
	f.released = strings.Split(strings.NewReplacer(moved...).Replace("\n"+strings.Join(f.released, "\n")), "\n")[1:]
	slices.Sort(f.released)
	return f, nil
}

func joinLines(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// subtractLines returns the lines of a that b does not have.
func subtractLines(a, b []string) (rest []string) {
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
