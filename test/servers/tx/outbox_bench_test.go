package tx_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
)

// BenchmarkOutboxRelay publishes existing messages through a publisher that confirms at once, so it
// measures the relay and the database. With Durable, what was marked has been synced.
func BenchmarkOutboxRelay(b *testing.B) {
	for name, open := range map[string]func(*testing.B) (*sql.DB, outbox.Dialect){
		"SQLite": func(b *testing.B) (*sql.DB, outbox.Dialect) {
			b.Helper()
			db, err := sql.Open("sqlite", sqltest.SQLiteDSN(filepath.Join(b.TempDir(), "box.db")))
			assert.NoError(b, err, "open")
			return db, outbox.SQLite
		},
		"PostgreSQL": func(b *testing.B) (*sql.DB, outbox.Dialect) {
			b.Helper()
			db, err := sql.Open("pgx", servers.StartPostgres(b, "-c", "fsync=on", "-c", "full_page_writes=on").URL())
			assert.NoError(b, err, "open")
			return db, outbox.PostgreSQL
		},
		"MariaDB": func(b *testing.B) (*sql.DB, outbox.Dialect) {
			b.Helper()
			db, err := sql.Open("mysql", servers.StartMySQL(b, "--innodb-flush-log-at-trx-commit=1", "--innodb-flush-method=fsync", "--innodb-buffer-pool-size=128M").DSN())
			assert.NoError(b, err, "open")
			return db, outbox.MySQL
		},
	} {
		for _, keys := range []int{1, 10_000} {
			b.Run(fmt.Sprintf("%s/keys=%d", name, keys), func(b *testing.B) {
				db, dialect := open(b)
				defer db.Close()
				db.SetMaxIdleConns(10)
				box, err := outbox.New(db, dialect, nil)
				assert.NoError(b, err, "an outbox")
				assert.NoError(b, box.Migrate(b.Context()), "Migrate")
				addBenchMessages(b, db, box, keys)
				ctx, cancel := context.WithCancel(b.Context())
				var n atomic.Int64
				relay, err := outbox.NewRelay(box, publisherFunc(func(_ context.Context, batch []outbox.Outgoing) []error {
					if n.Add(int64(len(batch))) >= int64(b.N) {
						cancel()
					}
					return make([]error, len(batch))
				}), nil)
				assert.NoError(b, err, "a relay")
				b.ResetTimer()
				assert.NoError(b, relay.Run(ctx), "Run")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
			})
		}
	}
}

// addBenchMessages adds as many messages as the benchmark publishes, of 200 bytes each.
func addBenchMessages(b *testing.B, db *sql.DB, box *outbox.Outbox, keys int) {
	b.Helper()
	for i := 0; i < b.N; {
		tx, err := db.BeginTx(b.Context(), nil)
		assert.NoError(b, err, "begin")
		for range min(1000, b.N-i) {
			err := box.Add(b.Context(), dbtx.SQL(tx, box.Dialect()), outbox.Message{Topic: "orders", Key: fmt.Sprint(i % keys), Payload: make([]byte, 200)})
			assert.NoError(b, err, "Add")
			i++
		}
		assert.NoError(b, tx.Commit(), "commit")
	}
}
