package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// setVersion makes all modules of the tree require one another at version, as go.mod, go.work and
// go.sum say it, and packs those that are published into proxy.
func (r *repo) setVersion(ctx context.Context, version, proxy string) error {
	if err := r.setWork(version); err != nil {
		return err
	}
	sums := map[string]string{}
	for _, m := range r.modules {
		for _, sibling := range r.modules {
			if m.requires(sibling) {
				if err := m.file.AddRequire(sibling.path, version); err != nil {
					return err
				}
			}
		}
		if err := r.writeModFile(m); err != nil {
			return err
		}
		if err := r.setSums(m, sums); err != nil {
			return err
		}
		if m.never {
			continue
		}
		var err error
		if sums[m.path], err = r.packModule(ctx, m, version, proxy); err != nil {
			return err
		}
	}
	return nil
}

func (r *repo) writeModFile(m *mod) error {
	m.file.Cleanup()
	text, err := m.file.Format()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir, m.dir, "go.mod"), text, 0o644)
}

// setWork puts the working tree in the place of the version.
func (r *repo) setWork(version string) error {
	work, err := readWork(r.dir)
	if err != nil {
		return err
	}
	for _, m := range r.publishedModules() {
		required := r.isRequired(m)
		if required {
			// first, so that the line stays where that of the old version was
			if err := work.AddReplace(m.path, version, "./"+m.dir, ""); err != nil {
				return err
			}
		}
		for _, old := range slices.Clone(work.Replace) {
			if old.Old.Path == m.path && (!required || old.Old.Version != version) {
				if err := work.DropReplace(m.path, old.Old.Version); err != nil {
					return err
				}
			}
		}
	}
	work.Cleanup()
	work.SortBlocks()
	return os.WriteFile(filepath.Join(r.dir, "go.work"), modfile.Format(work.Syntax), 0o644)
}

func (r *repo) isRequired(m *mod) bool {
	for _, other := range r.modules {
		if other.requires(m) {
			return true
		}
	}
	return false
}

// setSums writes the checksums of the siblings that m requires, and no others of them, into its
// go.sum.
func (r *repo) setSums(m *mod, sums map[string]string) error {
	name := filepath.Join(r.dir, m.dir, "go.sum")
	old, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	text := withoutModule(string(old), r.root)
	for _, sibling := range r.modules {
		if m.requires(sibling) {
			text += sums[sibling.path]
		}
	}
	if text == string(old) {
		return nil
	}
	return os.WriteFile(name, []byte(sortSums(text)), 0o644)
}

// withoutModule leaves out the lines of go.sum that are of a module or of one below it.
func withoutModule(sum, modulePath string) string {
	var kept strings.Builder
	for l := range strings.Lines(sum) {
		if !strings.HasPrefix(l, modulePath+" ") && !strings.HasPrefix(l, modulePath+"/") {
			kept.WriteString(l)
		}
	}
	return kept.String()
}

// sortSums sorts the lines of go.sum as the go command does: by path, and then by version.
func sortSums(text string) string {
	var all []module.Version
	lines := map[module.Version]string{}
	for l := range strings.Lines(text) {
		if words := strings.Fields(l); len(words) == 3 {
			v := module.Version{Path: words[0], Version: words[1]}
			all = append(all, v)
			lines[v] += l
		}
	}
	module.Sort(all)
	var out strings.Builder
	for _, v := range slices.Compact(all) {
		out.WriteString(lines[v])
	}
	return out.String()
}
