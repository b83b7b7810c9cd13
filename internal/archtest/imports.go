package archtest

import (
	"path"
	"slices"
	"strings"
)

// edge is one import: a file of one package names another package.
type edge struct {
	file *File
	// path is the import path as written; dir is its directory if it is in this repository.
	path, dir string
	ours      bool
}

// importEdges returns the imports of the files for which keep returns true.
func (t *Tree) importEdges(keep func(*File) bool) []edge {
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

// reachedImports returns the imports that a package brings into a program: its own and those of our
// packages that it imports, without tests. Each comes with the edge that names it.
func (t *Tree) reachedImports(start string) []edge {
	byDir := map[string][]edge{}
	for _, e := range t.importEdges(func(f *File) bool { return !f.Test() }) {
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

// packageDirs returns the directories with Go files, sorted.
func (t *Tree) packageDirs() []string {
	var dirs []string
	for _, f := range t.GoFiles() {
		dirs = append(dirs, f.Dir())
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// withinAny reports whether dir is one of bases or below one.
func withinAny(dir string, bases []string) bool {
	return slices.ContainsFunc(bases, func(b string) bool { return isWithin(dir, b) })
}

// isTestSuite reports whether dir is a *test package (storetest, httpidemtest, …) or below one, or
// what the folders of test/servers share.
func isTestSuite(dir string) bool {
	if isWithin(dir, "test/servers/internal") {
		return true
	}
	for ; dir != "."; dir = path.Dir(dir) {
		if base := path.Base(dir); base != "test" && strings.HasSuffix(base, "test") {
			return true
		}
	}
	return false
}
