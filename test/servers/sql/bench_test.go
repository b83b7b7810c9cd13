package sql_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// BenchmarkSQLite measures the store on a file with the recommended settings.
func BenchmarkSQLite(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B) storeapi.Store {
		b.Helper()
		db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "r.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
		assert.NoError(b, err, "open")
		b.Cleanup(func() { _ = db.Close() })
		s, err := sqlstore.New(db, sqlstore.SQLite, nil)
		assert.NoError(b, err, "store")
		assert.NoError(b, s.Migrate(b.Context()), "migrate")
		return s
	})
}

// BenchmarkPostgres measures the store on a server on loopback with the recommended settings.
func BenchmarkPostgres(b *testing.B) {
	server := servers.StartPostgres(b, "-c", "fsync=on", "-c", "full_page_writes=on")
	storetest.Benchmark(b, func(b *testing.B) storeapi.Store {
		b.Helper()
		s, _ := teststores.Postgres(b, server.URL(), &sqlstore.Options{Table: teststores.NewTable()})
		return s
	})
}

// BenchmarkMySQL measures the store on a MariaDB on loopback with the recommended settings.
func BenchmarkMySQL(b *testing.B) {
	server := servers.StartMySQL(b, "--innodb-flush-log-at-trx-commit=1", "--innodb-flush-method=fsync", "--innodb-buffer-pool-size=128M")
	storetest.Benchmark(b, func(b *testing.B) storeapi.Store {
		b.Helper()
		s, _ := teststores.MySQL(b, server.DSN(), &sqlstore.Options{Table: teststores.NewTable()})
		return s
	})
}
