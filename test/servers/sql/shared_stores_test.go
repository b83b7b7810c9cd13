package sql_test

import (
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestSharedStores: other services may share a server's store, but not a file's. On a server New
// requires a namespace.
func TestSharedStores(t *testing.T) {
	t.Parallel()
	postgres, _ := teststores.Postgres(t, servers.PostgresDatabase(t), nil)
	mysql, _ := teststores.MySQL(t, servers.MySQLDatabase(t), nil)
	sqlite, _ := teststores.OpenSQLite(t, sqltest.NewFile(t), nil)
	redis := teststores.Redis(t, servers.RedisClients["rueidis"](t, "redis://"+servers.StartRedis(t).Addr), nil)
	for name, s := range map[string]storeapi.Sharer{"PostgreSQL": postgres, "MariaDB": mysql, "Redis": redis} {
		assert.True(t, s.Shared(), "%s is shared", name)
		assert.True(t, didPanic(func() { retrysafe.New(s.(storeapi.Store), nil) }), "%s without a namespace is refused", name) //nolint:errcheck,forcetypeassert // all are
	}
	assert.True(t, !sqlite.Shared(), "a file is not shared")
}

func didPanic(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}
