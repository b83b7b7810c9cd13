package archtest

import (
	"path"
	"slices"
	"strings"
)

// Module is a parsed go.mod file.
type Module struct {
	// Dir is the directory of go.mod; "." for the root module.
	Dir string
	// Path is the module's import path.
	Path string
	// Requires are the paths of the required modules, and Versions their versions.
	Requires []string
	Versions map[string]string
	// Replaces maps a module path, or path@version, to its replacement, as written.
	Replaces map[string]string
	// Tools are the paths in its tool lines, which are requirements too.
	Tools []string
}

func parseModule(dir, text string) *Module {
	m := &Module{Dir: dir, Versions: map[string]string{}}
	lines := parseDirectives(text)
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
	m.Replaces = parseReplaces(lines)
	return m
}

// parseReplaces parses the lines "old [version] => new [version]" of go.mod and go.work.
func parseReplaces(lines map[string][][]string) map[string]string {
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

// parseDirectives parses the common format of go.mod and go.work: each verb with the words of its
// lines, blocks expanded. It does not use the parser of golang.org/x/mod, since the root module
// requires nothing.
func parseDirectives(text string) map[string][][]string {
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

// owningModule returns the module of an import path: the one with the longest matching path, or
// nil.
func (t *Tree) owningModule(importPath string) *Module {
	var best *Module
	for _, m := range t.Modules {
		if isWithin(importPath, m.Path) && (best == nil || len(m.Path) > len(best.Path)) {
			best = m
		}
	}
	return best
}

// rootModule returns the module at the top of the repository, or nil.
func (t *Tree) rootModule() *Module {
	for _, m := range t.Modules {
		if m.Dir == "." {
			return m
		}
	}
	return nil
}

// dirOf returns the directory of a package of this repository; ok is false for other packages.
func (t *Tree) dirOf(importPath string) (dir string, ok bool) {
	m := t.owningModule(importPath)
	if m == nil {
		return "", false
	}
	return path.Join(m.Dir, strings.TrimPrefix(importPath, m.Path)), true
}

// moduleOf returns the module of a file: the one with the longest matching directory.
func (t *Tree) moduleOf(f *File) *Module {
	var best *Module
	for _, m := range t.Modules {
		if isWithin(f.Dir(), m.Dir) && (best == nil || best.Dir == "." || len(m.Dir) > len(best.Dir)) {
			best = m
		}
	}
	return best
}

// isWithin reports whether the slash-separated path p is base or below it; every path is within
// ".".
func isWithin(p, base string) bool {
	return base == "." || p == base || strings.HasPrefix(p, base+"/")
}
