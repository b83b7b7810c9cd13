package servertest

import (
	_ "embed"
	"os"
	"path/filepath"
	"strings"

	"github.com/retrysafe/retrysafe/internal/assert"
)

//go:embed servers/servers.list
var serversList string

// Fetched returns the folder of a server that scripts/servers.sh fetches, by its name in the list.
func Fetched(tb assert.T, name string) string {
	tb.Helper()
	parent := os.Getenv("RETRYSAFE_SERVERS")
	if parent == "" && os.Getuid() == 0 {
		parent = "/var/cache/retrysafe/servers" // as in scripts/servers.sh
	} else if parent == "" {
		cache, err := os.UserCacheDir()
		assert.NoError(tb, err, "a folder for fetched servers")
		parent = filepath.Join(cache, "retrysafe", "servers")
	}
	version := fetchedVersion(name)
	assert.True(tb, version != "", "there is no server %s in servers/servers.list", name)
	dir := filepath.Join(parent, name+"-"+version)
	_, err := os.Stat(dir)
	assert.NoError(tb, err, "%s %s is not here: scripts/servers.sh %s", name, version, name)
	return dir
}

// fetchedVersion returns the version of a server in the list, or "" if it is not there.
func fetchedVersion(name string) string {
	for line := range strings.Lines(serversList) {
		if words := strings.Fields(line); words[0] == name {
			return words[1]
		}
	}
	return ""
}
