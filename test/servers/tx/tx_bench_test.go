package tx_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
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

// Statements of a transaction that is made safe to repeat by hand: the key in a table with a unique
// key, and the answer beside it at the end.
const (
	createByHand = "CREATE TABLE by_hand (name VARCHAR(200) PRIMARY KEY, fingerprint %s, answer %s)"
	claimByHand  = "INSERT INTO by_hand (name, fingerprint) VALUES (?, ?)"
	answerByHand = "UPDATE by_hand SET answer = ? WHERE name = ?"
)

// numbered returns a statement with the placeholders of PostgreSQL.
func numbered(q string) string {
	return strings.Replace(strings.Replace(q, "?", "$1", 1), "?", "$2", 1)
}

// BenchmarkTx compares a transaction in DoTx with the same one alone, and with one that is made
// safe to repeat by hand, in turn, on servers with their default durability.
func BenchmarkTx(b *testing.B) {
	postgres := servers.StartPostgres(b, "-c", "fsync=on", "-c", "full_page_writes=on", "-c", "synchronous_commit=on").URL()
	mysql := servers.StartMySQL(b, "--innodb-flush-log-at-trx-commit=1", "--innodb-flush-method=fsync").DSN()
	for _, s := range []struct {
		name, driver, dsn, id, bytes string
		dialect                      sqlstore.Dialect
	}{
		{"SQLite", "sqlite", sqltest.SQLiteDSN(b.TempDir() + "/bench.db"), "INTEGER PRIMARY KEY", "BLOB", sqlstore.SQLite},
		{"PostgreSQL", "pgx", postgres, "SERIAL PRIMARY KEY", "BYTEA", sqlstore.PostgreSQL},
		{"MariaDB", "mysql", mysql, "INT AUTO_INCREMENT PRIMARY KEY", "VARBINARY(255)", sqlstore.MySQL},
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
			fmt.Sprintf(createByHand, s.bytes, s.bytes),
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
		within := func(ctx context.Context, f func(tx *sql.Tx) error) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback() // where it was not committed
			if err := f(tx); err != nil {
				return err
			}
			return tx.Commit()
		}
		prepare := func(q string) *sql.Stmt {
			if s.dialect == sqlstore.PostgreSQL {
				q = numbered(q)
			}
			stmt, err := db.PrepareContext(b.Context(), q)
			assert.NoError(b, err, "prepare %s", q)
			return stmt
		}
		claim, answer := prepare(claimByHand), prepare(answerByHand)
		defer claim.Close()
		defer answer.Close()
		compareInTurn(b, s.name, func(ctx context.Context, _ retrysafe.Key) error {
			return within(ctx, func(tx *sql.Tx) error { return work(ctx, tx) })
		}, func(ctx context.Context, k retrysafe.Key) error {
			return within(ctx, func(tx *sql.Tx) error {
				if _, err := tx.StmtContext(ctx, claim).ExecContext(ctx, k.ID, fingerprint); err != nil {
					return err
				}
				if err := work(ctx, tx); err != nil {
					return err
				}
				_, err := tx.StmtContext(ctx, answer).ExecContext(ctx, []byte("1"), k.ID)
				return err
			})
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
		compareInTurn(b, "pgx", func(ctx context.Context, _ retrysafe.Key) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return native(ctx, tx) })
		}, func(ctx context.Context, k retrysafe.Key) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, numbered(claimByHand), k.ID, fingerprint); err != nil {
					return err
				}
				if err := native(ctx, tx); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, numbered(answerByHand), []byte("1"), k.ID)
				return err
			})
		}, func(ctx context.Context, k retrysafe.Key) error {
			_, err := retrysafe.DoTx(ctx, e, in, k, func(ctx context.Context, tx pgx.Tx) (int, error) { return 1, native(ctx, tx) })
			return err
		})
	}
}

var fingerprint = make([]byte, 32)

// compareInTurn runs the three in turn, so that all run under the same load, and reports how long
// each takes.
func compareInTurn(b *testing.B, name string, bare, byHand, with func(context.Context, retrysafe.Key) error) {
	b.Helper()
	b.Run(name, func(b *testing.B) {
		var took [3]time.Duration
		for i := range b.N {
			k := teststores.OrderKey(fmt.Sprint(name, b.N, " ", i))
			for n, run := range []func(context.Context, retrysafe.Key) error{bare, byHand, with} {
				began := time.Now()
				assert.NoError(b, run(b.Context(), k), "transaction %d", n)
				took[n] += time.Since(began)
			}
		}
		for n, unit := range []string{"bare-µs", "hand-µs", "DoTx-µs"} {
			b.ReportMetric(float64(took[n].Microseconds())/float64(b.N), unit)
		}
	})
}
