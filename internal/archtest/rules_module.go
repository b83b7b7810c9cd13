package archtest

import (
	"maps"
	"path"
	"slices"
	"strings"
)

var moduleRules = []Rule{
	{"root requires nothing", rootRequiresNothing},
	{"go.work lists every module", workListsModules},
	{"CONTRIBUTING lists every module", contributingListsModules},
	{"siblings are replaced", siblingsReplaced},
}

// rootRequiresNothing: whoever imports the core gets no dependency with it, not even one that only its tests need.
func rootRequiresNothing(t *Tree) []Violation {
	root := t.root()
	if root == nil {
		return []Violation{{"go.mod", "there is no root module"}}
	}
	var found []Violation
	for _, p := range slices.Concat(root.Requires, root.Tools, slices.Collect(maps.Keys(root.Replaces))) {
		found = append(found, Violation{"go.mod", "names " + p + "; move what needs it to a child module"})
	}
	return found
}

func workListsModules(t *Tree) []Violation {
	var found []Violation
	for _, m := range t.Modules {
		if !slices.Contains(t.Uses, m.Dir) {
			found = append(found, Violation{"go.work", "does not use " + m.Dir})
		}
	}
	for _, use := range t.Uses {
		if t.File(path.Join(use, "go.mod")) == nil {
			found = append(found, Violation{"go.work", "uses " + use + ", which has no go.mod"})
		}
	}
	return found
}

// contributingListsModules: each module has a row in a table of CONTRIBUTING.md, which says how stable it is.
func contributingListsModules(t *Tree) []Violation {
	const page = "CONTRIBUTING.md"
	text := ""
	if f := t.File(page); f != nil {
		text = f.Text
	}
	var found []Violation
	for _, m := range t.Modules {
		listed := false
		for line := range strings.Lines(text) {
			listed = listed || strings.HasPrefix(line, "|") && strings.Contains(line, "`"+m.Path+"`")
		}
		if !listed {
			found = append(found, Violation{page, "the table of modules has no row with `" + m.Path + "`"})
		}
	}
	return found
}

// siblingsReplaced: a module that requires a sibling says where it stands, so that tidy and GOWORK=off work in a fresh clone.
func siblingsReplaced(t *Tree) []Violation {
	var found []Violation
	for _, m := range t.Modules {
		file := path.Join(m.Dir, "go.mod")
		for _, required := range m.Requires {
			if t.ours(required) && m.Replaces[required] == "" {
				found = append(found, Violation{file, "requires " + required + " without a replace line to its directory"})
			}
		}
		for old, target := range m.Replaces {
			if !t.ours(old) {
				continue
			}
			dir := path.Join(m.Dir, target)
			if !slices.ContainsFunc(t.Modules, func(s *Module) bool { return s.Dir == dir && s.Path == old }) {
				found = append(found, Violation{file, "replaces " + old + " by " + target + ", which is not that module"})
			}
		}
	}
	return found
}

// ours tells whether an import path belongs to this repository, whether or not such a module exists.
func (t *Tree) ours(importPath string) bool {
	root := t.root()
	return root != nil && within(importPath, root.Path)
}
