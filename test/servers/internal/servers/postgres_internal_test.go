package servers

import (
	"os"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
)

func TestMain(m *testing.M) { Main(m) }

// TestPostgresLeavesNoMemory: a server that was killed leaves no shared memory, whether its test
// killed it or its end did. What stays would fill the system's 4,096 places, run by run.
func TestPostgresLeavesNoMemory(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(*Postgres){
		"running": func(*Postgres) {},
		"killed":  (*Postgres).Kill,
	} {
		var id string
		t.Run(name, func(t *testing.T) {
			s := StartPostgres(t)
			id = servertest.PostgresMemory(s.server.dir)
			kill(s)
			assert.True(t, sharedMemoryExists(t, id), "the server's shared memory %q", id)
		})
		assert.True(t, !sharedMemoryExists(t, id), "%s: the shared memory %q was left", name, id)
	}
}

func sharedMemoryExists(t *testing.T, id string) bool {
	t.Helper()
	table, err := os.ReadFile("/proc/sysvipc/shm")
	assert.NoError(t, err, "the system's list")
	for line := range strings.Lines(string(table)) {
		if words := strings.Fields(line); len(words) > 1 && words[1] == id {
			return true
		}
	}
	return false
}
