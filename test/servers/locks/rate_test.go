package locks_test

import (
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestRatesAreShared: of many concurrent requests, through two processes, as many pass as the burst
// allows.
func TestRatesAreShared(t *testing.T) {
	t.Parallel()
	onPostgres := func(v *servers.PostgresVersion) func(*testing.T) [2]storeapi.Store {
		return func(t *testing.T) [2]storeapi.Store {
			t.Helper()
			url := v.Database(t)
			one, _ := teststores.Postgres(t, url, nil)
			two, _ := teststores.Postgres(t, url, nil)
			return [2]storeapi.Store{one, two}
		}
	}
	onRedis := func(k *servers.RedisKind) func(*testing.T) [2]storeapi.Store {
		return func(t *testing.T) [2]storeapi.Store {
			t.Helper()
			url := "redis://" + k.Start(t).Addr
			return [2]storeapi.Store{teststores.Redis(t, servers.RedisClients["rueidis"](t, url), nil), teststores.Redis(t, servers.RedisClients["go-redis"](t, url), nil)}
		}
	}
	for name, open := range servers.WithPostgres(servers.WithRedis(map[string]func(t *testing.T) [2]storeapi.Store{
		"SQLite": func(t *testing.T) [2]storeapi.Store {
			t.Helper()
			path := filepath.Join(t.TempDir(), "r.db")
			one, _ := teststores.OpenSQLite(t, path, nil)
			two, _ := teststores.OpenSQLite(t, path, nil)
			return [2]storeapi.Store{one, two}
		},
		"MariaDB": func(t *testing.T) [2]storeapi.Store {
			t.Helper()
			dsn := servers.MySQLDatabase(t)
			one, _ := teststores.MySQL(t, dsn, nil)
			two, _ := teststores.MySQL(t, dsn, nil)
			return [2]storeapi.Store{one, two}
		},
	}, onRedis), onPostgres) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stores := open(t)
			engines := [2]*retrysafe.Engine{teststores.Engine(t, stores[0]), teststores.Engine(t, stores[1])}
			rate := retrysafe.Rate{PerSecond: 0.001, Burst: 9}
			var passed, refused atomic.Int64
			var all sync.WaitGroup
			for i := range 60 {
				all.Go(func() {
					switch err := engines[i%2].Allow(t.Context(), "ann", "POST /orders", rate); {
					case err == nil:
						passed.Add(1)
					case errors.Is(err, retrysafe.ErrTooManyRequests):
						refused.Add(1)
					default:
						t.Errorf("Allow: %v", err)
					}
				})
			}
			all.Wait()
			assert.Equal(t, [2]int64{passed.Load(), refused.Load()}, [2]int64{9, 51}, "passed and refused")
			assert.NoError(t, engines[0].Allow(t.Context(), "bob", "POST /orders", rate), "another tenant")
		})
	}
}
