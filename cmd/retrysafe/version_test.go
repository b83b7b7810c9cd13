package main

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestVersion: the command and the servers report the version.
func TestVersion(t *testing.T) {
	t.Parallel()
	run := func(args ...string) string {
		t.Helper()
		out, err := newCommand(t, args...).Output()
		assert.NoError(t, err, "%v", args)
		return string(out)
	}
	line := run("--version")
	v, ok := strings.CutPrefix(strings.TrimSpace(line), "retrysafe ")
	assert.True(t, ok && v != "" && strings.Count(line, "\n") == 1, "%q", line)
	all := run("version")
	assert.True(t, strings.HasPrefix(all, "retrysafe "), "%q", all)
	for _, part := range []string{"\ngo: " + runtime.Version() + "\n", "\nplatform: " + runtime.GOOS + "/" + runtime.GOARCH + "\n"} {
		assert.Contains(t, all, part, "version")
	}
	_, base := startIDs(t, "--store", "sqlite:"+filepath.Join(t.TempDir(), "ids.db"))
	_, metrics, _ := fetchURL(t, base+"/metrics")
	assert.Contains(t, metrics, `retrysafe_build_info{goversion="`+runtime.Version()+`",revision="`, "metrics")
}

// TestCompletion: a shell accepts the completion script, and values are proposed.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		out, err := newCommand(t, "completion", shell).Output()
		assert.True(t, err == nil && strings.Contains(string(out), "retrysafe"), "%s: %v", shell, err)
		if shell == "bash" {
			c := exec.CommandContext(t.Context(), "bash", "-n")
			c.Stdin = strings.NewReader(string(out))
			said, err := c.CombinedOutput()
			assert.NoError(t, err, "bash -n: %s", said)
		}
	}
	for call, want := range map[string]string{
		"gateway --on-doubt ":        "refuse\nreexecute\n",
		"gateway --in-progress ":     "reject\nwait 5s\n",
		"gateway --access-log ":      "off\nstdout\n",
		"ids serve --layout ":        "twitter\nfast\nuid-generator\nsonyflake\n",
		"gateway --store ":           "sqlite:\n",
		"gateway --store re":         "redis://\nredis+sentinel://\nredis+cluster://\n",
		"keys list --store re":       "redis://\nredis+sentinel://\nredis+cluster://\n:",
		"ids serve --store post":     "postgres://\n",
		"gateway --store sqlite:/tm": ":0\n", // files, completed by the shell
		"gateway --config ":          "yaml\nyml\n",
		"advise --":                  "--dialect\n",
	} {
		args := append([]string{"__complete"}, strings.Split(call, " ")...)
		out, err := newCommand(t, args...).Output()
		assert.NoError(t, err, "%s", call)
		assert.Contains(t, string(out), want, "%s", call)
	}
}
