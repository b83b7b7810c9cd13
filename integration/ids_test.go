package integration_test

import (
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestWorkersOnServers: processes that claim at once have a number each, those that come and go make no id twice, and the next holder of a
// number starts above the last one's times.
func TestWorkersOnServers(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) retrysafe.Store{
		"SQLite": func(t *testing.T) retrysafe.Store {
			t.Helper()
			s, _ := openSQLite(t, filepath.Join(t.TempDir(), "r.db"), nil)
			return s
		},
		"PostgreSQL": func(t *testing.T) retrysafe.Store {
			t.Helper()
			s, _ := postgresOn(t, postgresDatabase(t), nil)
			return s
		},
		"MariaDB": func(t *testing.T) retrysafe.Store {
			t.Helper()
			s, _ := mysqlOn(t, mysqlDatabase(t), nil)
			return s
		},
		"Redis": func(t *testing.T) retrysafe.Store {
			t.Helper()
			return redisOn(t, redisClients["rueidis"](t, "redis://"+startRedis(t).addr), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			workers := idgen.NewWorkers(open(t), &idgen.WorkersOptions{Max: 16, Lease: 5 * time.Second})
			var mu sync.Mutex
			var ids []idgen.ID
			live := map[uint64]bool{}
			var all sync.WaitGroup
			for range 6 {
				all.Go(func() {
					for range 2 {
						held, err := workers.Claim(t.Context())
						if err != nil {
							t.Errorf("Claim: %v", err)
							return
						}
						mu.Lock()
						if live[held.Number()] {
							t.Errorf("%v is held twice", held)
						}
						live[held.Number()] = true
						mu.Unlock()
						g, err := idgen.NewSnowflake(held, nil)
						if err != nil {
							t.Errorf("NewSnowflake: %v", err)
							return
						}
						some, err := g.NextN(t.Context(), 5000)
						if err != nil {
							t.Errorf("NextN: %v", err)
						}
						mu.Lock()
						ids = append(ids, some...)
						delete(live, held.Number())
						mu.Unlock()
						if err := held.Release(t.Context()); err != nil {
							t.Errorf("Release: %v", err)
						}
					}
				})
			}
			all.Wait()
			assert.Equal(t, len(ids), 60_000, "ids")
			slices.Sort(ids)
			assert.Equal(t, len(slices.Compact(ids)), 60_000, "different ids")
		})
	}
}
