// Package version says which version of retrysafe a program was built of, as the Go toolchain has
// noted it in the program.
package version

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// modules is what the paths of all modules of this repository begin with. They are released
// together, with one version.
const modules = "github.com/retrysafe/retrysafe"

// Info is what is known of a build. What is not known is empty.
type Info struct {
	// Version is that of the modules, such as v0.1.0. A build of a checkout has what the toolchain
	// makes of its commit, or (devel).
	Version string
	// Revision is the commit, with +dirty behind it where files were changed. A module that was
	// downloaded has none.
	Revision string
	// Date is that of the commit, in RFC 3339.
	Date string
	// GoVersion is that of the toolchain, such as go1.26.0.
	GoVersion string
	// Platform is the operating system and the processor, such as linux/amd64.
	Platform string
}

// Read tells of a module of this repository in the program that is running.
func Read(module string) Info {
	b, _ := debug.ReadBuildInfo()
	return Of(b, module)
}

// Of tells of a module of this repository in a program, which may be another one: its own version
// is not retrysafe's then.
func Of(b *debug.BuildInfo, module string) Info {
	info := Info{Version: "(devel)", GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if b == nil {
		return info
	}
	if b.GoVersion != "" {
		info.GoVersion = b.GoVersion
	}
	if !ours(b.Main.Path) {
		for _, d := range b.Deps {
			if d.Path != module {
				continue
			}
			if d.Replace != nil {
				d = d.Replace
			}
			if d.Version != "" {
				info.Version = d.Version
			}
			break
		}
		return info
	}
	if b.Main.Version != "" {
		info.Version = b.Main.Version
	}
	for _, s := range b.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Revision = s.Value + info.Revision
		case "vcs.modified":
			if s.Value == "true" {
				info.Revision += "+dirty"
			}
		case "vcs.time":
			info.Date = s.Value
		}
	}
	return info
}

func ours(path string) bool { return path == modules || strings.HasPrefix(path, modules+"/") }

// Released tells whether the version is one that the module proxy has under this name.
func (i Info) Released() bool {
	return strings.HasPrefix(i.Version, "v") && !strings.ContainsAny(i.Version, "-+")
}

// String is the version in a line: with the commit, where the version does not name it.
func (i Info) String() string {
	commit, changed, _ := strings.Cut(i.Revision, "+")
	if len(commit) < 12 || strings.Contains(i.Version, commit[:12]) || i.Released() {
		return i.Version
	}
	if changed != "" {
		changed = "+" + changed
	}
	return i.Version + " " + commit[:12] + changed
}

// Text is all of it, a line each, for the program of that name.
func (i Info) Text(program string) string {
	var b strings.Builder
	b.WriteString(program + " " + i.Version + "\n")
	for _, line := range [][2]string{{"commit", i.Revision}, {"date", i.Date}, {"go", i.GoVersion}, {"platform", i.Platform}} {
		if line[1] != "" {
			b.WriteString(line[0] + ": " + line[1] + "\n")
		}
	}
	return b.String()
}
