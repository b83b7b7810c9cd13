package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/semver"
)

// rehearseInstall installs every published module of the working tree as a stranger does who has
// nothing but Go: at the next version, from a proxy, with an empty module cache and no workspace.
// The programs by "go install", the others by "go get", each alone, with a program that imports all
// its packages, which is built and run. What a go.mod leaves out is seen too, though the go command
// helps users over it: each module has to be tidy. Then it does what the pages tell their readers
// to do.
func rehearseInstall(ctx context.Context, r *repo) error {
	return r.withStagedTree(ctx, func(tree *repo, version, stage string, env []string) error {
		printProgress("rehearsing %s of %d modules", version, len(tree.publishedModules()))
		return errors.Join(
			tree.forEachModule(func(m *mod) error { return tree.installModule(ctx, m, version, stage, env) }),
			tree.installPages(ctx, stage, env),
		)
	})
}

// rehearsePages does what the pages tell their readers to do, and nothing else of the rehearsal.
func rehearsePages(ctx context.Context, r *repo) error {
	return r.withStagedTree(ctx, func(tree *repo, _, stage string, env []string) error { return tree.installPages(ctx, stage, env) })
}

// withStagedTree calls f with a copy of the tree at the next version, in a folder beside a proxy
// that has its modules, and with the environment of a stranger.
func (r *repo) withStagedTree(ctx context.Context, f func(tree *repo, version, stage string, env []string) error) error {
	stage, err := os.MkdirTemp("", "release-rehearsal-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	version, err := r.nextVersion(ctx)
	if err != nil {
		return err
	}
	proxy := filepath.Join(stage, "proxy")
	tree, err := r.copyTo(ctx, filepath.Join(stage, path.Base(r.root))) // as git clone names it
	if err != nil {
		return err
	}
	if err := tree.setVersion(ctx, version, proxy); err != nil {
		return err
	}
	env, err := r.strangersEnv(ctx, stage, proxy)
	if err != nil {
		return err
	}
	// its files cannot be written to
	defer func() { _, _ = runForOutput(context.WithoutCancel(ctx), stage, env, "go", "clean", "-modcache") }()
	return f(tree, version, stage, env)
}

// nextVersion returns the version that is released next: the one that the modules require each
// other at, as long as that has no tag, else the minor version after it.
func (r *repo) nextVersion(ctx context.Context) (string, error) {
	version := r.requiredVersion()
	if !semver.IsValid(version) {
		return "", errors.New("no module requires the root module, so that there is no version to go by")
	}
	tags, err := runForOutput(ctx, r.dir, nil, "git", "tag", "--list", version)
	if err != nil || strings.TrimSpace(tags) == "" {
		return version, err
	}
	var major, minor, patch int
	if _, err := fmt.Sscanf(version, "v%d.%d.%d", &major, &minor, &patch); err != nil {
		return "", fmt.Errorf("version %s: %w", version, err)
	}
	return fmt.Sprintf("v%d.%d.0", major, minor+1), nil
}

// strangersEnv is the environment of a user who has Go and nothing else.
func (r *repo) strangersEnv(ctx context.Context, stage, proxy string) ([]string, error) {
	out, err := runForOutput(ctx, stage, []string{"GOWORK=off"}, "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return nil, err
	}
	have := strings.Split(strings.TrimSpace(out), "\n")
	if len(have) != 2 {
		return nil, fmt.Errorf("go env printed %q", out)
	}
	return []string{
		"GOWORK=off", "GOFLAGS=" + r.flags,
		"GOMODCACHE=" + filepath.Join(stage, "modules"), "GOBIN=" + filepath.Join(stage, "bin"),
		// What others have made comes from this machine's module cache, where go.sum has checked
		// it, and else from the network.
		"GOPROXY=file://" + proxy + ",file://" + filepath.ToSlash(filepath.Join(have[0], "cache", "download")) + "," + have[1],
		"GOSUMDB=off",
	}, nil
}

// forEachModule runs f for every published module, two at a time, and returns all errors.
func (r *repo) forEachModule(f func(*mod) error) error {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
		hand = make(chan struct{}, 2)
	)
	for _, m := range r.publishedModules() {
		wg.Go(func() {
			hand <- struct{}{}
			defer func() { <-hand }()
			if err := f(m); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("%s cannot be installed: %w", m.path, err))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (r *repo) installModule(ctx context.Context, m *mod, version, stage string, env []string) error {
	began := time.Now()
	packages, program, err := r.importablePackages(ctx, m)
	if err != nil {
		return err
	}
	if _, err := runForOutput(ctx, filepath.Join(r.dir, m.dir), env, "go", "mod", "tidy", "-diff"); err != nil {
		return fmt.Errorf("its go.mod is not tidy: %w", err)
	}
	if program {
		err = installProgram(ctx, m, version, stage, env)
	} else {
		err = useLibrary(ctx, m, version, stage, env, packages)
	}
	if err == nil {
		printProgress("  %-70s %5.1f s", m.path, time.Since(began).Seconds())
	}
	return err
}

// importablePackages returns those of the module that others may import; program says that it is a
// command instead.
func (r *repo) importablePackages(ctx context.Context, m *mod) (paths []string, program bool, err error) {
	out, err := runForOutput(ctx, filepath.Join(r.dir, m.dir), []string{"GOWORK=" + filepath.Join(r.dir, "go.work")}, "go", "list", "-f", "{{.ImportPath}} {{.Name}} {{len .GoFiles}}", "./...")
	if err != nil {
		return nil, false, err
	}
	for l := range strings.Lines(out) {
		var path, name string
		var files int
		if _, err := fmt.Sscan(l, &path, &name, &files); err != nil {
			return nil, false, fmt.Errorf("go list printed %q: %w", l, err)
		}
		switch {
		case name == "main":
			program = program || path == m.path
		case files > 0 && !strings.Contains(path+"/", "/internal/"):
			paths = append(paths, path)
		}
	}
	return paths, program, nil
}

// installProgram installs a command and asks it for its version.
func installProgram(ctx context.Context, m *mod, version, stage string, env []string) error {
	dir, err := os.MkdirTemp(stage, "install")
	if err != nil {
		return err
	}
	if _, err := runForOutput(ctx, dir, env, "go", "install", m.path+"@"+version); err != nil {
		return err
	}
	name := filepath.Join(stage, "bin", filepath.Base(m.path))
	said, err := exec.CommandContext(ctx, name, "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(said), version) {
		return fmt.Errorf("%s --version does not name %s: %q, %w", filepath.Base(name), version, said, err)
	}
	return nil
}

// useLibrary makes a program in a module of its own that imports the packages.
func useLibrary(ctx context.Context, m *mod, version, stage string, env, packages []string) error {
	dir, err := os.MkdirTemp(stage, "use")
	if err != nil {
		return err
	}
	var program strings.Builder
	program.WriteString("package main\n\nimport (\n")
	for _, p := range packages {
		fmt.Fprintf(&program, "\t_ %q\n", p)
	}
	program.WriteString(")\n\nfunc main() {}\n")
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program.String()), 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{{"mod", "init", "example.com/user"}, {"get", m.path + "@" + version}, {"mod", "tidy"}, {"run", "."}} {
		if _, err := runForOutput(ctx, dir, env, "go", args...); err != nil {
			return err
		}
	}
	return nil
}
