package integration_test

import (
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestRatesAreShared: of many concurrent requests, through two processes, as many pass as the burst
// allows.
func TestRatesAreShared(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) [2]retrysafe.Store{
		"SQLite": func(t *testing.T) [2]retrysafe.Store {
			t.Helper()
			path := filepath.Join(t.TempDir(), "r.db")
			one, _ := openSQLite(t, path, nil)
			two, _ := openSQLite(t, path, nil)
			return [2]retrysafe.Store{one, two}
		},
		"PostgreSQL": func(t *testing.T) [2]retrysafe.Store {
			t.Helper()
			url := postgresDatabase(t)
			one, _ := postgresOn(t, url, nil)
			two, _ := postgresOn(t, url, nil)
			return [2]retrysafe.Store{one, two}
		},
		"MariaDB": func(t *testing.T) [2]retrysafe.Store {
			t.Helper()
			dsn := mysqlDatabase(t)
			one, _ := mysqlOn(t, dsn, nil)
			two, _ := mysqlOn(t, dsn, nil)
			return [2]retrysafe.Store{one, two}
		},
		"Redis": func(t *testing.T) [2]retrysafe.Store {
			t.Helper()
			url := "redis://" + startRedis(t).addr
			return [2]retrysafe.Store{redisOn(t, redisClients["rueidis"](t, url), nil), redisOn(t, redisClients["go-redis"](t, url), nil)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stores := open(t)
			engines := [2]*retrysafe.Engine{newEngine(t, stores[0]), newEngine(t, stores[1])}
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
