package version_test

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/version"
)

const commit = "58ef161b2c3d4e5f60718293a4b5c6d7e8f90a1b"

// TestOf: the version is retrysafe's, also in a program of another project.
func TestOf(t *testing.T) {
	t.Parallel()
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: commit}, {Key: "vcs.time", Value: "2026-11-22T23:22:05Z"}, {Key: "vcs.modified", Value: "true"}}
	command := debug.Module{Path: "github.com/retrysafe/retrysafe/cmd/retrysafe", Version: "v0.1.0"}
	for name, c := range map[string]struct {
		build          *debug.BuildInfo
		line, revision string
		released       bool
	}{
		"nothing is known": {nil, "(devel)", "", false},
		"installed":        {&debug.BuildInfo{Main: command}, "v0.1.0", "", true},
		"at its tag":       {&debug.BuildInfo{Main: command, Settings: vcs[:2]}, "v0.1.0", commit, true},
		"a checkout":       {&debug.BuildInfo{Main: debug.Module{Path: command.Path, Version: "(devel)"}, Settings: vcs}, "(devel) 58ef161b2c3d+dirty", commit + "+dirty", false},
		"a checkout that the toolchain names": {
			&debug.BuildInfo{Main: debug.Module{Path: command.Path, Version: "v0.1.1-0.20261122232205-58ef161b2c3d"}, Settings: vcs[:2]},
			"v0.1.1-0.20261122232205-58ef161b2c3d", commit, false,
		},
		"another program": {&debug.BuildInfo{
			Main: debug.Module{Path: "example.com/shop", Version: "v7.0.0"}, Settings: vcs,
			Deps: []*debug.Module{{Path: "github.com/retrysafe/retrysafe", Version: "v0.2.0"}, {Path: "github.com/retrysafe/retrysafe/gateway", Version: "v0.1.0"}},
		}, "v0.1.0", "", true},
		"another program with a fork": {&debug.BuildInfo{
			Main: debug.Module{Path: "example.com/shop"},
			Deps: []*debug.Module{{Path: "github.com/retrysafe/retrysafe/gateway", Version: "v0.1.0", Replace: &debug.Module{Path: "../fork"}}},
		}, "(devel)", "", false},
	} {
		info := version.Of(c.build, "github.com/retrysafe/retrysafe/gateway")
		assert.Equal(t, info.String(), c.line, "%s: line", name)
		assert.Equal(t, info.Revision, c.revision, "%s: revision", name)
		assert.Equal(t, info.Released(), c.released, "%s: released", name)
		assert.True(t, strings.HasPrefix(info.GoVersion, "go") && strings.Contains(info.Platform, "/"), "%s: %+v", name, info)
	}
	text := version.Of(&debug.BuildInfo{GoVersion: "go1.26.0", Main: command, Settings: vcs[:2]}, command.Path).Text("retrysafe")
	assert.True(t, strings.HasPrefix(text, "retrysafe v0.1.0\ncommit: "+commit+"\ndate: 2026-11-22T23:22:05Z\ngo: go1.26.0\nplatform: "), "%s", text)
	assert.True(t, version.Read(command.Path).Version != "", "this program")
}
