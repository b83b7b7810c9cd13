package tx_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/pgxidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// business are the statements of a small transaction: an order, its line, and the stock.
var business = []string{
	"INSERT INTO sales (customer) VALUES ('ada')", "INSERT INTO sale_lines (item, n) VALUES (7, 1)", "UPDATE stock SET n = n - 1 WHERE id = 1",
}

// BenchmarkTx compares a transaction with the same one in DoTx, one after the other, on servers
// with their default durability.
func BenchmarkTx(b *testing.B) {
	postgres := servers.StartPostgres(b, "-c", "fsync=on", "-c", "full_page_writes=on", "-c", "synchronous_commit=on").URL()
	mysql := servers.StartMySQL(b, "--innodb-flush-log-at-trx-commit=1", "--innodb-flush-method=fsync").DSN()
	for _, s := range []struct {
		name, driver, dsn, id string
		dialect               sqlstore.Dialect
	}{
		{"SQLite", "sqlite", sqltest.SQLiteDSN(b.TempDir() + "/bench.db"), "INTEGER PRIMARY KEY", sqlstore.SQLite},
		{"PostgreSQL", "pgx", postgres, "SERIAL PRIMARY KEY", sqlstore.PostgreSQL},
		{"MariaDB", "mysql", mysql, "INT AUTO_INCREMENT PRIMARY KEY", sqlstore.MySQL},
	} {
		db, err := sql.Open(s.driver, s.dsn)
		assert.NoError(b, err, "open")
		defer db.Close()
		db.SetMaxIdleConns(4)
		store, err := sqlstore.New(db, s.dialect, &sqlstore.Options{Logger: slog.New(slog.DiscardHandler)})
		assert.NoError(b, err, "a store")
		assert.NoError(b, store.Migrate(b.Context()), "Migrate")
		for _, q := range []string{
			"CREATE TABLE sales (id " + s.id + ", customer VARCHAR(100))", "CREATE TABLE sale_lines (id " + s.id + ", item INT, n INT)",
			"CREATE TABLE stock (id INT PRIMARY KEY, n INT)", "INSERT INTO stock VALUES (1, 1000000)",
		} {
			_, err := db.ExecContext(b.Context(), q)
			assert.NoError(b, err, "%s", q)
		}
		e := retrysafe.New(store, &retrysafe.Options{Namespace: "app", Secret: []byte("0123456789abcdef"), Sweep: -1})
		defer e.Shutdown(context.Background()) // the end of a benchmark
		work := func(ctx context.Context, tx *sql.Tx) error {
			for _, q := range business {
				if _, err := tx.ExecContext(ctx, q); err != nil {
					return err
				}
			}
			return nil
		}
		compareInTurn(b, s.name, func(ctx context.Context) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback() // where it was not committed
			if err := work(ctx, tx); err != nil {
				return err
			}
			return tx.Commit()
		}, func(ctx context.Context, k retrysafe.Key) error {
			_, err := retrysafe.DoTx(ctx, e, store, k, func(ctx context.Context, tx *sql.Tx) (int, error) { return 1, work(ctx, tx) })
			return err
		})
		if s.dialect != sqlstore.PostgreSQL {
			continue
		}
		pool, err := pgxpool.New(b.Context(), s.dsn)
		assert.NoError(b, err, "a pool")
		defer pool.Close()
		native := func(ctx context.Context, tx pgx.Tx) error {
			for _, q := range business {
				if _, err := tx.Exec(ctx, q); err != nil {
					return err
				}
			}
			return nil
		}
		in := pgxidem.New(store, pool)
		compareInTurn(b, "pgx", func(ctx context.Context) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return native(ctx, tx) })
		}, func(ctx context.Context, k retrysafe.Key) error {
			_, err := retrysafe.DoTx(ctx, e, in, k, func(ctx context.Context, tx pgx.Tx) (int, error) { return 1, native(ctx, tx) })
			return err
		})
	}
}

// compareInTurn runs the two in turn, so that both run under the same load, and reports how much
// longer the second takes.
func compareInTurn(b *testing.B, name string, bare func(context.Context) error, with func(context.Context, retrysafe.Key) error) {
	b.Helper()
	b.Run(name, func(b *testing.B) {
		var one, two time.Duration
		for i := range b.N {
			began := time.Now()
			assert.NoError(b, bare(b.Context()), "the bare transaction")
			middle := time.Now()
			assert.NoError(b, with(b.Context(), teststores.OrderKey(fmt.Sprint(name, b.N, " ", i))), "DoTx")
			one, two = one+middle.Sub(began), two+time.Since(middle)
		}
		b.ReportMetric(float64(one.Microseconds())/float64(b.N), "bare-µs")
		b.ReportMetric(float64(two.Microseconds())/float64(b.N), "DoTx-µs")
		b.ReportMetric(float64(two)/float64(one), "times")
	})
}
