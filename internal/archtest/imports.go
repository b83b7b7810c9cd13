package archtest

import (
	"path"
	"slices"
	"strings"
)

// edge is one import: a file of a package names another package.
type edge struct {
	file *File
	// path is the import path as written; dir is its directory if it is ours.
	path, dir string
	ours      bool
}

// edges are the imports of the files that keep says yes to.
func (t *Tree) edges(keep func(*File) bool) []edge {
	var all []edge
	for _, f := range t.GoFiles() {
		if !keep(f) {
			continue
		}
		for _, p := range f.Imports() {
			dir, ours := t.dirOf(p)
			all = append(all, edge{f, p, dir, ours})
		}
	}
	return all
}

// reached are the imports of a package that it carries into a program: its own and those of our
// packages below it, tests left out. Each comes with the edge that names it.
func (t *Tree) reached(start string) []edge {
	byDir := map[string][]edge{}
	for _, e := range t.edges(func(f *File) bool { return !f.Test() }) {
		byDir[e.file.Dir()] = append(byDir[e.file.Dir()], e)
	}
	var all []edge
	seen := map[string]bool{start: true}
	for todo := []string{start}; len(todo) > 0; todo = todo[1:] {
		for _, e := range byDir[todo[0]] {
			all = append(all, e)
			if e.ours && !seen[e.dir] {
				seen[e.dir] = true
				todo = append(todo, e.dir)
			}
		}
	}
	return all
}

// packageDirs are the directories that hold Go files, sorted.
func (t *Tree) packageDirs() []string {
	var dirs []string
	for _, f := range t.GoFiles() {
		dirs = append(dirs, f.Dir())
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// withinAny tells whether dir is one of bases or below one.
func withinAny(dir string, bases []string) bool {
	return slices.ContainsFunc(bases, func(b string) bool { return within(dir, b) })
}

// suite tells whether dir is a *test package (storetest, httpidemtest, …) or stands below one.
func suite(dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		if strings.HasSuffix(path.Base(dir), "test") {
			return true
		}
	}
	return false
}
