package locks_test

import (
	"crypto/rand"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/adapters/zklock"
	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestWorkersOnServers: processes that claim at once get different numbers, processes that come and
// go make no id twice, and the next holder of a number starts above the last one's times.
func TestWorkersOnServers(t *testing.T) {
	t.Parallel()
	o := &idgen.WorkersOptions{Max: 16, Lease: time.Minute, Unsafe: true}
	onPostgres := func(v *servers.PostgresVersion) func(*testing.T) *idgen.Workers {
		return func(t *testing.T) *idgen.Workers {
			t.Helper()
			s, _ := teststores.Postgres(t, v.Database(t), nil)
			return idgen.NewWorkers(s, o)
		}
	}
	onRedis := func(k *servers.RedisKind) func(*testing.T) *idgen.Workers {
		return func(t *testing.T) *idgen.Workers {
			t.Helper()
			return idgen.NewWorkers(teststores.Redis(t, servers.RedisClients["rueidis"](t, "redis://"+k.Start(t).Addr), nil), o)
		}
	}
	for name, open := range servers.WithPostgres(servers.WithRedis(map[string]func(t *testing.T) *idgen.Workers{
		"SQLite": func(t *testing.T) *idgen.Workers {
			t.Helper()
			s, _ := teststores.OpenSQLite(t, filepath.Join(t.TempDir(), "r.db"), nil)
			return idgen.NewWorkers(s, o)
		},
		"MariaDB": func(t *testing.T) *idgen.Workers {
			t.Helper()
			s, _ := teststores.MySQL(t, servers.MySQLDatabase(t), nil)
			return idgen.NewWorkers(s, o)
		},
		"ZooKeeper": func(t *testing.T) *idgen.Workers {
			t.Helper()
			b, err := zklock.Open(t.Context(), []string{servers.SharedZooKeeper.Get(t).Addr}, &zklock.Options{
				Root: "/retrysafe/" + rand.Text(), Session: time.Minute, Logger: slog.New(slog.DiscardHandler),
			})
			assert.NoError(t, err, "Open")
			t.Cleanup(func() { _ = b.Close() })
			return zklock.NewWorkers(b, o)
		},
	}, onRedis), onPostgres) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			workers := open(t)
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
