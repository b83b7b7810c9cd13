package archtest

import (
	"path"
	"slices"
	"strings"
)

// Module is what a go.mod file says.
type Module struct {
	// Dir is the directory of go.mod; "." is the root module's.
	Dir string
	// Path is the module's import path.
	Path string
	// Requires are the paths of the modules that it requires, and Versions their versions.
	Requires []string
	Versions map[string]string
	// Replaces maps a module path, or path@version, to what stands in its place, as written.
	Replaces map[string]string
	// Tools are the paths of its tool lines, which are requirements too.
	Tools []string
}

func parseModule(dir, text string) *Module {
	m := &Module{Dir: dir, Versions: map[string]string{}}
	lines := directives(text)
	for _, line := range lines["module"] {
		m.Path = line[0]
	}
	for _, line := range lines["require"] {
		m.Requires = append(m.Requires, line[0])
		if len(line) > 1 {
			m.Versions[line[0]] = line[1]
		}
	}
	for _, line := range lines["tool"] {
		m.Tools = append(m.Tools, line[0])
	}
	m.Replaces = replaces(lines)
	return m
}

// replaces reads the lines "old [version] => new [version]" of go.mod and go.work.
func replaces(lines map[string][][]string) map[string]string {
	all := map[string]string{}
	for _, line := range lines["replace"] {
		at := slices.Index(line, "=>")
		if at < 1 || at+1 == len(line) {
			continue
		}
		all[strings.Join(line[:at], "@")] = line[at+1]
	}
	return all
}

// directives reads the format that go.mod and go.work share: each verb with the words of its lines,
// blocks unfolded. The root module requires nothing, so the parser of golang.org/x/mod is out of
// reach.
func directives(text string) map[string][][]string {
	verbs := map[string][][]string{}
	block := ""
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, "//")
		words := strings.Fields(code)
		for i := range words {
			words[i] = strings.Trim(words[i], `"`)
		}
		switch {
		case len(words) == 0:
		case words[0] == ")":
			block = ""
		case len(words) > 1 && words[1] == "(":
			block = words[0]
		case block != "":
			verbs[block] = append(verbs[block], words)
		case len(words) > 1:
			verbs[words[0]] = append(verbs[words[0]], words[1:])
		}
	}
	return verbs
}

// module finds the module that an import path belongs to: the one with the longest matching path,
// or nil.
func (t *Tree) module(importPath string) *Module {
	var best *Module
	for _, m := range t.Modules {
		if within(importPath, m.Path) && (best == nil || len(m.Path) > len(best.Path)) {
			best = m
		}
	}
	return best
}

// root is the module at the top of the repository, or nil.
func (t *Tree) root() *Module {
	for _, m := range t.Modules {
		if m.Dir == "." {
			return m
		}
	}
	return nil
}

// dirOf is the directory of one of our own packages; ok is false for anybody else's.
func (t *Tree) dirOf(importPath string) (dir string, ok bool) {
	m := t.module(importPath)
	if m == nil {
		return "", false
	}
	return path.Join(m.Dir, strings.TrimPrefix(importPath, m.Path)), true
}

// moduleOf is the module that a file belongs to: the one with the longest matching directory.
func (t *Tree) moduleOf(f *File) *Module {
	var best *Module
	for _, m := range t.Modules {
		if within(f.Dir(), m.Dir) && (best == nil || best.Dir == "." || len(m.Dir) > len(best.Dir)) {
			best = m
		}
	}
	return best
}

// within tells whether the slash-separated path p is base or below it; everything is within ".".
func within(p, base string) bool {
	return base == "." || p == base || strings.HasPrefix(p, base+"/")
}
