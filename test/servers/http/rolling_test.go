package http_test

import (
	"os"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
)

// TestRollingChange: while gateways are replaced one after the other, two builds share a store.
// Each key has one effect and one answer, whichever gateway it reaches first. RETRYSAFE_OLD names
// the command of the other build (scripts/rolling.sh builds it); without it both are of this tree.
func TestRollingChange(t *testing.T) {
	t.Parallel()
	programs := [2]string{theCommand.Get(t), os.Getenv("RETRYSAFE_OLD")}
	if programs[1] == "" {
		programs[1] = programs[0]
	}
	for name, start := range map[string]func(*testing.T) string{
		"redis":    func(t *testing.T) string { t.Helper(); return "redis://" + servers.StartRedis(t).Addr },
		"postgres": func(t *testing.T) string { t.Helper(); return servers.StartPostgres(t).URL() },
		"mysql": func(t *testing.T) string {
			t.Helper()
			return "mysql://root@127.0.0.1:" + servers.StartMySQL(t).Port + "/retrysafe"
		},
		"sqlite": func(t *testing.T) string { t.Helper(); return "sqlite:" + sqltest.NewFile(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := start(t)
			store = strings.Replace(store, "postgresql://", "postgres://", 1)
			// The old build creates the tables, and the new one changes them.
			programs := programs
			programs[0], programs[1] = programs[1], programs[0]
			twoGateways(t, programs, store, 100)
		})
	}
}
