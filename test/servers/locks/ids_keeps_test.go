package locks_test

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestWorkersOfServersThatForget: only servers that keep what they confirm give worker numbers. The
// error names the setting.
func TestWorkersOfServersThatForget(t *testing.T) {
	t.Parallel()
	redis := func(o *redisstore.Options, args ...string) func(*testing.T) storeapi.Store {
		return func(t *testing.T) storeapi.Store {
			t.Helper()
			return teststores.Redis(t, servers.RedisClients["rueidis"](t, "redis://"+servers.StartRedis(t, args...).Addr), o)
		}
	}
	couple := func(o *redisstore.Options, args ...string) func(*testing.T) storeapi.Store {
		return func(t *testing.T) storeapi.Store {
			t.Helper()
			primary, _ := servers.StartCouple(t, args...)
			return teststores.Redis(t, servers.RedisClients["rueidis"](t, "redis://"+primary.Addr), o)
		}
	}
	postgres := func(args ...string) func(*testing.T) storeapi.Store {
		return func(t *testing.T) storeapi.Store {
			t.Helper()
			s, _ := teststores.Postgres(t, servers.StartPostgres(t, args...).URL(), nil)
			return s
		}
	}
	mysql := func(args ...string) func(*testing.T) storeapi.Store {
		return func(t *testing.T) storeapi.Store {
			t.Helper()
			s, _ := teststores.MySQL(t, servers.StartMySQL(t, args...).DSN(), nil)
			return s
		}
	}
	sqlite := func(pragmas ...string) func(*testing.T) storeapi.Store {
		return func(t *testing.T) storeapi.Store {
			t.Helper()
			return teststores.SQLite(t, sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(sqltest.NewFile(t), pragmas...)), nil)
		}
	}
	logged, always := []string{"--appendonly", "yes"}, []string{"--appendonly", "yes", "--appendfsync", "always"}
	for name, c := range map[string]struct {
		open func(*testing.T) storeapi.Store
		why  string // "": it keeps all
	}{
		"Redis without a log":               {redis(nil), "appendonly"},
		"Redis that writes now and then":    {redis(nil, logged...), "appendfsync"},
		"Redis that always writes":          {redis(nil, always...), ""},
		"Redis that evicts":                 {redis(&redisstore.Options{AllowEviction: true}, append(always, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")...), "noeviction"},
		"Redis with a replica":              {couple(nil, always...), "Replicas"},
		"Redis with a replica that answers": {couple(&redisstore.Options{Replicas: 1, ReplicaTime: time.Minute}, always...), ""},
		"PostgreSQL without fsync":          {postgres("-c", "fsync=off"), "fsync"},
		"PostgreSQL that answers before":    {postgres("-c", "fsync=on", "-c", "full_page_writes=on", "-c", "synchronous_commit=off"), "synchronous_commit"},
		"PostgreSQL":                        {postgres("-c", "fsync=on", "-c", "full_page_writes=on", "-c", "synchronous_commit=on"), ""},
		"MariaDB that writes now and then":  {mysql("--innodb-flush-log-at-trx-commit=2"), "innodb_flush_log_at_trx_commit"},
		"MariaDB with a log for replicas":   {mysql("--innodb-flush-log-at-trx-commit=1", "--log-bin=log", "--server-id=1", "--sync-binlog=1"), "semi-synchronous"},
		"MariaDB":                           {mysql("--innodb-flush-log-at-trx-commit=1", "--innodb-doublewrite=1", "--skip-log-bin"), ""},
		"SQLite that writes now and then":   {sqlite("synchronous(NORMAL)"), "synchronous"},
		"SQLite":                            {sqlite(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held, err := idgen.NewWorkers(c.open(t), &idgen.WorkersOptions{Max: 2}).Claim(t.Context())
			if c.why != "" {
				assert.True(t, err != nil, "Claim")
				assert.Contains(t, err.Error(), c.why, "what can be lost")
				return
			}
			assert.NoError(t, err, "Claim")
			assert.NoError(t, held.Release(t.Context()), "Release")
		})
	}
}
