package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// section is a part of a page that says how to install something.
type section struct {
	name     string
	program  string   // the program that the page shows, if there is one
	commands []string // in their order
}

var (
	fenced   = regexp.MustCompile("(?s)```.*?```\n")
	shown    = regexp.MustCompile("(?s)```go\n(package main\n.*?)```\n")
	installs = regexp.MustCompile("(?m)^    (go (?:get|install|mod|build -C) .*)$|`(go (?:get|install) [^`]+/[^`]+)`")
	named    = regexp.MustCompile(`^go (?:get ([^\s@]+)|mod edit -replace ([^\s=]+)=)`)
)

// installSections returns what a page tells its reader to install.
func installSections(page, text string) (all []section) {
	program := ""
	if m := shown.FindStringSubmatch(text); m != nil {
		program = m[1]
	}
	for part := range strings.SplitSeq(fenced.ReplaceAllString(text, ""), "\n#") {
		title, _, _ := strings.Cut(strings.TrimLeft(part, "# "), "\n")
		s := section{name: page + ", " + title, program: program}
		for _, m := range installs.FindAllStringSubmatch(part, -1) {
			command, _, _ := strings.Cut(m[1]+m[2], " #")
			s.commands = append(s.commands, strings.TrimSpace(command))
		}
		if s.commands != nil {
			all = append(all, s)
		}
	}
	return all
}

// usesClone reports whether the section is for the time before the release, and uses a clone.
func (s *section) usesClone() bool {
	return strings.Contains(strings.Join(s.commands, "\n"), "-replace ")
}

// main returns the program of the section's reader: that of the page, or one that imports what the
// commands name.
func (s *section) main() string {
	if s.program != "" {
		return s.program
	}
	var b strings.Builder
	b.WriteString("package main\n\nimport (\n")
	for _, command := range s.commands {
		if m := named.FindStringSubmatch(command); m != nil {
			fmt.Fprintf(&b, "\t_ %q\n", m[1]+m[2])
		}
	}
	b.WriteString(")\n\nfunc main() {}\n")
	return b.String()
}

// installPages runs the commands of all pages that install something, from the text of the pages,
// each section in an empty folder beside the tree, and builds the program.
func (r *repo) installPages(ctx context.Context, stage string, env []string) error {
	names, err := r.gitFiles(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if !strings.HasSuffix(name, ".md") || strings.HasSuffix(name, ".zh-CN.md") {
			// a twin has the same commands
			continue
		}
		text, err := os.ReadFile(filepath.Join(r.dir, name))
		if err != nil {
			return err
		}
		for _, s := range installSections(name, string(text)) {
			if err := s.runCommands(ctx, stage, env); err != nil {
				errs = append(errs, fmt.Errorf("%s: the commands do not work: %w", s.name, err))
				continue
			}
			printProgress("  %s", s.name)
		}
	}
	return errors.Join(errs...)
}

func (s *section) runCommands(ctx context.Context, stage string, env []string) error {
	dir, err := os.MkdirTemp(stage, "page")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(s.main()), 0o600); err != nil {
		return err
	}
	env = append(slices.Clone(env), "GOWORK=")
	if s.usesClone() {
		env = cloneEnv(stage, env)
	}
	commands := s.commands
	if !strings.Contains(strings.Join(commands, "\n"), "go mod init ") {
		commands = append([]string{"go mod init example.com/user"}, commands...)
	}
	for _, command := range append(commands, "go mod tidy", "go build -o "+path.Join(dir, "program")+" .") {
		if _, err := runForOutput(ctx, dir, env, "sh", "-c", command); err != nil {
			return err
		}
	}
	return nil
}

// cloneEnv returns the environment of a reader who has a clone, when nothing is released: no module
// of the tree is in a proxy, nor among those that the rehearsal has downloaded.
func cloneEnv(stage string, env []string) []string {
	flags := "-modcacherw"
	for _, line := range env {
		if given, ok := strings.CutPrefix(line, "GOFLAGS="); ok {
			flags += " " + given
		}
	}
	for _, line := range env {
		if proxies, ok := strings.CutPrefix(line, "GOPROXY="); ok {
			proxies = strings.TrimPrefix(proxies, "file://"+filepath.Join(stage, "proxy")+",")
			return append(slices.Clone(env), "GOPROXY="+proxies, "GOMODCACHE="+filepath.Join(stage, "unreleased"), "GOFLAGS="+flags)
		}
	}
	return env
}
