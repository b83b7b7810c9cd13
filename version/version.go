// Package version reports the version of retrysafe that a program was built with, as the Go
// toolchain has recorded it in the program.
package version

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// modules is the prefix of the paths of all modules of this repository. They are released together,
// with one version.
const modules = "github.com/retrysafe/retrysafe"

// Info describes a build. Unknown fields are empty.
type Info struct {
	// Version is the version of the modules, such as v0.1.0. In a build of a checkout it is what
	// the toolchain derives from the commit, or (devel).
	Version string
	// Revision is the commit, with +dirty appended if files were changed. It is empty for a module
	// that was downloaded.
	Revision string
	// Date is the date of the commit, in RFC 3339.
	Date string
	// GoVersion is the version of the toolchain, such as go1.26.0.
	GoVersion string
	// Platform is the operating system and the processor, such as linux/amd64.
	Platform string
}

// Read returns the Info of a module of this repository in the running program.
func Read(module string) Info {
	b, _ := debug.ReadBuildInfo()
	return Of(b, module)
}

// Of returns the Info of a module of this repository in a program. If it is another project's
// program, its own version is not retrysafe's.
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

// Released reports whether the module proxy has this version under its name.
func (i Info) Released() bool {
	return strings.HasPrefix(i.Version, "v") && !strings.ContainsAny(i.Version, "-+")
}

// String returns the version in one line, with the commit if the version does not contain it.
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

// Text returns all fields, one a line, for the program of that name.
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
