package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// repo is a tree of files that holds the modules.
type repo struct {
	dir     string
	root    string // the path of the root module
	modules []*mod // those that others require come first

	// flags are those of the go command that a rehearsal uses. Without -trimpath, what is compiled
	// depends on where its files are: everything would be compiled again for each module cache.
	flags string
}

// mod is one go.mod file.
type mod struct {
	path  string
	dir   string // relative to the repository, with slashes; "" is the root's
	file  *modfile.File
	never bool // never tagged
}

// openRepo reads the modules that go.work names.
func openRepo(dir string) (*repo, error) {
	work, err := readWork(dir)
	if err != nil {
		return nil, err
	}
	contributing, err := os.ReadFile(filepath.Join(dir, "CONTRIBUTING.md"))
	if err != nil {
		return nil, err
	}
	r := &repo{dir: dir, flags: "-trimpath"}
	for _, use := range work.Use {
		m, err := readModule(dir, strings.TrimPrefix(filepath.ToSlash(filepath.Clean(use.Path)), "."))
		if err != nil {
			return nil, err
		}
		row := firstLine(string(contributing), "| `"+m.path+"`")
		if row == "" {
			return nil, fmt.Errorf("CONTRIBUTING.md has no row for %s, which says whether it is tagged", m.path)
		}
		m.never = strings.Contains(row, "never tagged")
		if m.dir == "" {
			r.root = m.path
		}
		r.modules = append(r.modules, m)
	}
	if r.root == "" {
		return nil, errors.New("go.work does not use the root module")
	}
	r.modules, err = orderByRequirement(r.modules)
	return r, err
}

func readWork(dir string) (*modfile.WorkFile, error) {
	text, err := os.ReadFile(filepath.Join(dir, "go.work"))
	if err != nil {
		return nil, err
	}
	return modfile.ParseWork("go.work", text, nil)
}

func readModule(repo, dir string) (*mod, error) {
	name := filepath.Join(repo, dir, "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	f, err := modfile.Parse(name, text, nil)
	if err != nil {
		return nil, err
	}
	return &mod{path: f.Module.Mod.Path, dir: dir, file: f}, nil
}

// firstLine returns the first line of text that begins so.
func firstLine(text, begins string) string {
	for l := range strings.Lines(text) {
		if strings.HasPrefix(l, begins) {
			return l
		}
	}
	return ""
}

// orderByRequirement puts each module after those that it requires: a tag must find those of its
// requirements, and the checksums of a module can be written down when it is complete.
func orderByRequirement(all []*mod) ([]*mod, error) {
	var done []*mod
	ready := func(m *mod) bool {
		return !slices.Contains(done, m) && !slices.ContainsFunc(all, func(other *mod) bool { return m.requires(other) && !slices.Contains(done, other) })
	}
	for len(done) < len(all) {
		i := slices.IndexFunc(all, ready)
		if i < 0 {
			return nil, errors.New("modules require each other in a circle")
		}
		done = append(done, all[i])
	}
	return done, nil
}

func (m *mod) requires(other *mod) bool {
	return slices.ContainsFunc(m.file.Require, func(r *modfile.Require) bool { return r.Mod.Path == other.path })
}

// publishedModules returns the modules that get tags.
func (r *repo) publishedModules() []*mod {
	return slices.DeleteFunc(slices.Clone(r.modules), func(m *mod) bool { return m.never })
}

// tagName returns the name of the module's tag.
func (m *mod) tagName(version string) string {
	if m.dir == "" {
		return version
	}
	return m.dir + "/" + version
}

// requiredVersion returns the version at which the modules require one another.
func (r *repo) requiredVersion() string {
	for _, m := range r.modules {
		for _, q := range m.file.Require {
			if q.Mod.Path == r.root {
				return q.Mod.Version
			}
		}
	}
	return ""
}

// gitFiles returns those that git has or would add.
func (r *repo) gitFiles(ctx context.Context) ([]string, error) {
	out, err := runForOutput(ctx, r.dir, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	if err != nil {
		return nil, err
	}
	names := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	return slices.DeleteFunc(names, func(name string) bool {
		// one that was removed and is not committed
		_, err := os.Lstat(filepath.Join(r.dir, name))
		return errors.Is(err, fs.ErrNotExist)
	}), nil
}

// copyTo makes a copy of the working tree.
func (r *repo) copyTo(ctx context.Context, dir string) (*repo, error) {
	names, err := r.gitFiles(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(r.dir, name))
		if err != nil {
			return nil, err
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return nil, err
		}
	}
	if _, err := runForOutput(ctx, dir, nil, "git", "init", "-q"); err != nil {
		// so that files works there too
		return nil, err
	}
	return openRepo(dir)
}

// runForOutput runs a command and returns what it printed; its error has what it complained of.
func runForOutput(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	var said strings.Builder
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, strings.TrimSpace(said.String()+string(out)))
	}
	return string(out), nil
}
