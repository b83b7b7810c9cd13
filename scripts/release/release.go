package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// releaseVersion makes VERSION of all modules: it sets the versions at which they require one
// another, with their checksums, cuts the changelog and the record of the API, commits that, and
// tags the commit once for each module, those first that others require. Without really it does so
// in a copy, and shows the change and the tags. Nothing is pushed either way.
func releaseVersion(ctx context.Context, r *repo, version string, really bool) error {
	if err := r.checkReleasable(ctx, version); err != nil {
		return err
	}
	stage, err := os.MkdirTemp("", "retrysafe-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	tree := r
	if !really {
		if tree, err = r.copyTo(ctx, filepath.Join(stage, "tree")); err != nil {
			return err
		}
		if _, err := runForOutput(ctx, tree.dir, nil, "git", "add", "-A"); err != nil {
			return err
		}
	}
	if err := tree.cutChangelog(version, time.Now()); err != nil {
		// first: it is part of the root module, and of its checksum
		return err
	}
	if err := tree.cutAPI(version); err != nil {
		return err
	}
	if err := tree.setVersion(ctx, version, filepath.Join(stage, "proxy")); err != nil {
		return err
	}
	change, err := runForOutput(ctx, tree.dir, nil, "git", "diff", "--stat=100")
	if err != nil {
		return err
	}
	printProgress("%s", change)
	commands := tree.gitCommands(version)
	if !really {
		printProgress("Nothing was changed. With -really these would follow:")
	}
	for _, args := range commands {
		printProgress("  git %s", strings.Join(args, " "))
		if really {
			if _, err := runForOutput(ctx, tree.dir, nil, "git", args...); err != nil {
				return err
			}
		}
	}
	printProgress("Then: git push --atomic origin main %s", strings.Join(tree.tagNames(version), " "))
	return nil
}

// checkReleasable says what stands in the way of the release.
func (r *repo) checkReleasable(ctx context.Context, version string) error {
	if semver.Canonical(version) != version || semver.Build(version) != "" {
		return fmt.Errorf("%q is no version; it looks like v0.2.0 or v0.2.0-rc.1", version)
	}
	if semver.Major(version) != "v0" && semver.Major(version) != "v1" {
		return fmt.Errorf("%s needs module paths that end in /%s", version, semver.Major(version))
	}
	tags, err := runForOutput(ctx, r.dir, nil, "git", "tag", "--list", "v*")
	if err != nil {
		return err
	}
	for tag := range strings.FieldsSeq(tags) {
		if semver.Compare(tag, version) >= 0 {
			return fmt.Errorf("%s does not come after %s, which is tagged", version, tag)
		}
	}
	changed, err := runForOutput(ctx, r.dir, nil, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		return errors.New("there are changes that are not committed")
	}
	return nil
}

func (r *repo) tagNames(version string) []string {
	var all []string
	for _, m := range r.publishedModules() {
		all = append(all, m.tagName(version))
	}
	return all
}

// gitCommands returns what git does, in this order.
func (r *repo) gitCommands(version string) [][]string {
	all := [][]string{{"add", "--all"}, {"commit", "--quiet", "--message", "Release " + version}}
	for _, tag := range r.tagNames(version) {
		all = append(all, []string{"tag", "--annotate", "--message", "Release " + version, tag})
	}
	return all
}

const unreleased = "## [Unreleased]"

// cutChangelog gives what is unreleased the version and the day, and begins a new list.
func (r *repo) cutChangelog(version string, day time.Time) error {
	name := filepath.Join(r.dir, "CHANGELOG.md")
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, after, found := strings.Cut(string(text), unreleased+"\n")
	if !found {
		return fmt.Errorf("CHANGELOG.md has no line %q", unreleased)
	}
	entries, _, _ := strings.Cut(after, "\n## ")
	if strings.TrimSpace(entries) == "" {
		return errors.New("CHANGELOG.md has nothing under " + unreleased)
	}
	cut := before + unreleased + "\n\n## [" + strings.TrimPrefix(version, "v") + "] - " + day.UTC().Format(time.DateOnly) + "\n" + after
	return os.WriteFile(name, []byte(cut), 0o644)
}

// cutAPI makes what is new in the record of the exported API that of the version. scripts/api
// compares later trees with it.
func (r *repo) cutAPI(version string) error {
	next := filepath.Join(r.dir, "scripts", "api", "next.txt")
	if err := os.Rename(next, filepath.Join(r.dir, "scripts", "api", version+".txt")); err != nil {
		return fmt.Errorf("the record of the API: %w; go run ./scripts/api -write makes it", err)
	}
	return os.WriteFile(next, nil, 0o644)
}
