package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// small is a repository of two modules in which everything is as it has to be.
func small() map[string]string {
	return map[string]string{
		"go.mod":               "module github.com/example/m\n\ngo 1.26\n",
		"go.work":              "go 1.26\n\nuse (\n\t./tool\n\t./child\n\t.\n\t./trial\n)\n\nreplace (\n\tgithub.com/example/m v0.3.0 => ./\n\tgithub.com/example/m/child v0.3.0 => ./child\n)\n",
		"LICENSE":              "You may use it.\n",
		"scripts/api/next.txt": "m: const Answer\n",
		"CHANGELOG.md":         "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- It.\n\n## [0.2.0] - 2026-01-01\n",
		"CONTRIBUTING.md":      "| `github.com/example/m` | | |\n| `github.com/example/m/child` | | |\n| `github.com/example/m/tool` | | |\n| `github.com/example/m/trial` | | never tagged |\n",
		"m.go":                 "package m\n\nconst Answer = 42\n",
		"internal/low/a.go":    "package low\n",
		"child/go.mod":         "module github.com/example/m/child\n\ngo 1.26\n\nrequire github.com/example/m v0.3.0\n",
		"child/go.sum":         "",
		"child/child.go":       "package child\n\nimport \"github.com/example/m\"\n\nconst Answer = m.Answer\n",
		"child/testdata/a.x":   "data\n",
		"tool/go.mod":          "module github.com/example/m/tool\n\ngo 1.26\n\nrequire github.com/example/m/child v0.3.0\n\nrequire github.com/example/m v0.3.0 // indirect\n",
		"tool/main.go": "package main\n\nimport (\n\t\"fmt\"\n\t\"runtime/debug\"\n\n\t\"github.com/example/m/child\"\n)\n\n" +
			"func main() {\n\tinfo, _ := debug.ReadBuildInfo()\n\tfmt.Println(\"tool\", info.Main.Version, child.Answer)\n}\n",
		"README.md": "# M\n\n## Clone\n\n    go mod edit -replace github.com/example/m=../m\n    go mod edit -replace github.com/example/m/child=../m/child\n    go mod tidy\n    go build -C ../m -o built ./tool\n\n" +
			"## Install\n\nUse `go install github.com/example/m/tool@latest`.\n\n    go get github.com/example/m         # all of it\n    go get github.com/example/m/child\n",
		"trial/go.mod": "module github.com/example/m/trial\n\ngo 1.26\n",
		"trial/a.go":   "package trial\n",
	}
}

// repository writes files into a folder that git knows, with one commit.
func repository(t *testing.T, files map[string]string) *repo {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		to := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(to), 0o755))
		must(t, os.WriteFile(to, []byte(text), 0o600))
	}
	git(t, dir, "init", "-q", "-b", "main")
	git(t, dir, "config", "user.name", "Test")
	git(t, dir, "config", "user.email", "test@example.com")
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "All of it")
	r, err := openRepo(dir)
	must(t, err)
	r.flags = "" // the standard library is compiled already, as the tests have it
	return r
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := runForOutput(t.Context(), dir, nil, "git", args...)
	must(t, err)
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRehearse: everything that is published can be installed.
func TestRehearse(t *testing.T) {
	t.Parallel()
	must(t, rehearseInstall(t.Context(), repository(t, small())))
}

// TestRehearseFails: what a user would meet is an error that names the module.
func TestRehearseFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, old, new, says string }{
		"a requirement that does not exist": {"child/go.mod", "github.com/example/m v0.3.0\n", "github.com/example/m v0.3.0\n\nrequire example.invalid/gone v1.0.0\n", "github.com/example/m/child cannot be installed"},
		"a requirement that was left out":   {"child/go.mod", "\nrequire github.com/example/m v0.3.0\n", "", "github.com/example/m/child cannot be installed"},
		"a replace line in a program":       {"tool/go.mod", "\nrequire github.com/example/m ", "\nreplace github.com/example/m => ../\n\nrequire github.com/example/m ", "github.com/example/m/tool cannot be installed"},
		"a package that does not build":     {"m.go", "42", "unknown", "github.com/example/m cannot be installed"},
		"a page that gets no module":        {"README.md", "go get github.com/example/m/child", "go get github.com/example/m/chlid", "README.md, Install: the commands do not work"},
		"a page that installs no program":   {"README.md", "m/tool@latest", "m/tol@latest", "README.md, Install: the commands do not work"},
		"a page that replaces by no folder": {"README.md", "=../m/child", "=../m/chlid", "README.md, Clone: the commands do not work"},
		"a page that replaces too little":   {"README.md", "    go mod edit -replace github.com/example/m=../m\n", "", "README.md, Clone: the commands do not work"},
		"a page that builds no program":     {"README.md", "built ./tool", "built ./tol", "README.md, Clone: the commands do not work"},
		"a program without a version":       {"tool/main.go", "info.Main.Version", "info.Main.Path", "--version does not name v0.3.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := small()
			if !strings.Contains(files[c.file], c.old) {
				t.Fatalf("%s has no %q", c.file, c.old)
			}
			files[c.file] = strings.Replace(files[c.file], c.old, c.new, 1)
			err := rehearseInstall(t.Context(), repository(t, files))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("the rehearsal says %v, and nothing of %q", err, c.says)
			}
		})
	}
}

// TestRelease: a commit with the versions, the checksums that the go command will find when it gets
// the tags from git, and the tags.
func TestRelease(t *testing.T) {
	t.Parallel()
	r := repository(t, small())
	before := git(t, r.dir, "rev-parse", "HEAD")
	must(t, releaseVersion(t.Context(), r, "v0.4.0", false))
	if after := git(t, r.dir, "rev-parse", "HEAD"); after != before || git(t, r.dir, "status", "--porcelain") != "" || git(t, r.dir, "tag") != "" {
		t.Fatal("a dry run changes the repository")
	}
	r, err := openRepo(r.dir)
	must(t, err)
	begun := time.Now().UTC()
	must(t, releaseVersion(t.Context(), r, "v0.4.0", true))
	if got, want := git(t, r.dir, "tag"), "child/v0.4.0\ntool/v0.4.0\nv0.4.0\n"; got != want {
		t.Errorf("tags are %q, not %q", got, want)
	}
	api, err := os.ReadFile(filepath.Join(r.dir, "scripts", "api", "v0.4.0.txt"))
	must(t, err)
	if string(api) != "m: const Answer\n" {
		t.Errorf("the API of the version is %q", api)
	}
	changes, err := os.ReadFile(filepath.Join(r.dir, "CHANGELOG.md"))
	must(t, err)
	cut := func(day time.Time) bool {
		return strings.Contains(string(changes), "## [Unreleased]\n\n## [0.4.0] - "+day.Format(time.DateOnly)+"\n\n### Added\n")
	}
	if !cut(begun) && !cut(time.Now().UTC()) { // midnight may have passed
		t.Errorf("the changelog was not cut:\n%s", changes)
	}
	work, err := os.ReadFile(filepath.Join(r.dir, "go.work"))
	must(t, err)
	if !strings.Contains(string(work), "replace (\n\tgithub.com/example/m v0.4.0 => ./\n") || strings.Contains(string(work), "v0.3.0") {
		t.Errorf("go.work was not changed:\n%s", work)
	}
	for _, m := range []string{"child", "tool"} {
		checkSums(t, r, m)
	}
	r, err = openRepo(r.dir)
	must(t, err)
	for version, says := range map[string]string{
		"v0.4.0": "does not come after", "0.5.0": "is no version", "v0.5": "is no version", "v2.0.0": "module paths",
	} {
		if err := releaseVersion(t.Context(), r, version, false); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("a release of %s: %v, and nothing of %q", version, err, says)
		}
	}
	if err := releaseVersion(t.Context(), r, "v0.5.0", false); err == nil || !strings.Contains(err.Error(), "has nothing under") {
		t.Errorf("a release without changes: %v", err)
	}
	if changed := git(t, r.dir, "status", "--porcelain"); changed != "" {
		t.Fatalf("a release that was refused changes\n%s", changed)
	}
	must(t, os.WriteFile(filepath.Join(r.dir, "m.go"), []byte("package m\n"), 0o600))
	if err := releaseVersion(t.Context(), r, "v0.5.0", false); err == nil || !strings.Contains(err.Error(), "not committed") {
		t.Errorf("a release of a tree with changes: %v", err)
	}
}

// checkSums compares a module's go.sum with what the go command computes of the tags in git.
func checkSums(t *testing.T, r *repo, dir string) {
	t.Helper()
	sums, err := os.ReadFile(filepath.Join(r.dir, dir, "go.sum"))
	must(t, err)
	if len(sums) == 0 {
		t.Errorf("go.sum of %s is empty", dir)
	}
	env := []string{
		"GOWORK=off", "GOPROXY=direct", "GOSUMDB=off", "GOFLAGS=-modcacherw", "GOMODCACHE=" + t.TempDir(),
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url." + r.dir + ".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/example/m",
	}
	for l := range strings.Lines(string(sums)) {
		path, rest, _ := strings.Cut(strings.TrimSpace(l), " ")
		version, sum, _ := strings.Cut(rest, " ")
		version, ofMod := strings.CutSuffix(version, "/go.mod")
		out, err := runForOutput(t.Context(), t.TempDir(), env, "go", "mod", "download", "-json", path+"@"+version)
		must(t, err)
		var known struct{ Sum, GoModSum string }
		must(t, json.Unmarshal([]byte(out), &known))
		if want := map[bool]string{true: known.GoModSum, false: known.Sum}[ofMod]; sum != want {
			t.Errorf("go.sum of %s says of %s %s, and git gives %s", dir, path, sum, want)
		}
	}
}

// TestSections: the commands of a page by its parts, and what their reader's program imports.
func TestSections(t *testing.T) {
	t.Parallel()
	all := installSections("a.md", "# A\n\n```sh\ngo get not/this\n```\n\n## B\n\nUse `go install x/y@latest`, not `go mod tidy`.\n\n    go get x/z@v1 # why\n    make\n\n### C\n\n    go mod edit -replace x/w=../w\n")
	var got []string
	for _, s := range all {
		got = append(got, s.name, strings.Join(s.commands, ";"), strings.Join(strings.Fields(s.main()), " "))
	}
	want := []string{
		"a.md, B", "go install x/y@latest;go get x/z@v1", `package main import ( _ "x/z" ) func main() {}`,
		"a.md, C", "go mod edit -replace x/w=../w", `package main import ( _ "x/w" ) func main() {}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("sections are %q, not %q", got, want)
	}
	page := installSections("b.md", "# A\n\n```go\npackage main\n\nfunc main() {}\n```\n\n    go mod tidy\n")
	if len(page) != 1 || page[0].main() != "package main\n\nfunc main() {}\n" {
		t.Errorf("the program of a page: %+v", page)
	}
}
