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
	{"modules replace nothing", modulesReplaceNothing},
	{"siblings have one version", siblingsHaveOneVersion},
	{"tagged modules require tagged ones", taggedRequireTagged},
}

// rootRequiresNothing: a program that imports the core gets no dependency with it, not even one
// that only the core's tests need.
func rootRequiresNothing(t *Tree) []Violation {
	root := t.rootModule()
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

// contributing is the page with the table of modules: how stable each one is, and which ones are
// never tagged.
const contributing = "CONTRIBUTING.md"

// tableRow returns the module's line in that table, or "".
func (t *Tree) tableRow(m *Module) string {
	if f := t.File(contributing); f != nil {
		for line := range strings.Lines(f.Text) {
			if strings.HasPrefix(line, "|") && strings.Contains(line, "`"+m.Path+"`") {
				return line
			}
		}
	}
	return ""
}

func contributingListsModules(t *Tree) []Violation {
	var found []Violation
	for _, m := range t.Modules {
		if t.tableRow(m) == "" {
			found = append(found, Violation{contributing, "the table of modules has no row with `" + m.Path + "`"})
		}
	}
	return found
}

// modulesReplaceNothing: go install refuses a program whose go.mod has replace lines. For other
// users a replace line has no effect, so it would hide a wrong require line.
func modulesReplaceNothing(t *Tree) []Violation {
	var found []Violation
	for _, m := range t.Modules {
		for old := range m.Replaces {
			found = append(found, Violation{path.Join(m.Dir, "go.mod"), "replaces " + old + "; go.work is where development does that"})
		}
	}
	return found
}

// siblingsHaveOneVersion: all modules are released together, so all require lines have the same
// version. go.work uses the working tree instead of it.
func siblingsHaveOneVersion(t *Tree) []Violation {
	var found []Violation
	version := ""
	for _, m := range t.Modules {
		for _, required := range m.Requires {
			if !t.isOurs(required) {
				continue
			}
			file, v := path.Join(m.Dir, "go.mod"), m.Versions[required]
			if version == "" {
				version = v
			}
			if v != version {
				found = append(found, Violation{file, "requires " + required + " " + v + ", others require siblings at " + version})
			}
			target, replaced := t.Replaces[required+"@"+v]
			if s := t.owningModule(required); !replaced || s == nil || s.Path != required || path.Clean(target) != s.Dir {
				found = append(found, Violation{"go.work", "has no line that replaces " + required + " " + v + " by its directory"})
			}
		}
	}
	return found
}

func taggedRequireTagged(t *Tree) []Violation {
	var found []Violation
	for _, m := range t.Modules {
		for _, required := range m.Requires {
			if s := t.owningModule(required); s != nil && s.Path == required && !t.isTagged(s) && t.isTagged(m) {
				found = append(found, Violation{path.Join(m.Dir, "go.mod"), "requires " + required + ", which is never tagged"})
			}
		}
	}
	return found
}

// isTagged reports whether the module has releases.
func (t *Tree) isTagged(m *Module) bool { return !strings.Contains(t.tableRow(m), "never tagged") }

// isOurs reports whether an import path belongs to this repository, whether or not such a module
// exists.
func (t *Tree) isOurs(importPath string) bool {
	root := t.rootModule()
	return root != nil && isWithin(importPath, root.Path)
}
