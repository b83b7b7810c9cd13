package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// endings are how work ends after it has written outside of its transaction.
var endings = map[string]error{
	"nothing is told": nil, "an error": errors.New("out of stock"), "a final refusal": retrysafe.Permanent("no-credit", errors.New("no credit")),
}

// TestTxLoose: work that ends its transaction by SQL text and then writes has an effect that
// stands. The error says so, it is not retryable, and a duplicate has no second effect.
func TestTxLoose(t *testing.T) {
	t.Parallel()
	shops.Each(t, func(t *testing.T, a, b *shops.Shop) {
		t.Helper()
		texts := map[string][]string{"ROLLBACK": {"ROLLBACK"}}
		switch a.Store.Dialect() {
		case sqlstore.PostgreSQL:
			texts["another transaction"] = []string{"ROLLBACK", "BEGIN"}
		case sqlstore.MySQL:
			texts = map[string][]string{"autocommit": {"ROLLBACK", "SET autocommit = 1"}, "COMMIT": {"SET autocommit = 1"}}
		}
		for how, statements := range texts {
			for name, then := range endings {
				customer := how + ", " + name
				_, err := retrysafe.DoTx(t.Context(), a.Engine, a.Store, teststores.OrderKey(customer), func(ctx context.Context, tx *sql.Tx) (int64, error) {
					for _, text := range statements {
						_, err := tx.ExecContext(ctx, text)
						assert.NoError(t, err, "%s", text)
						if text == "ROLLBACK" || text == "BEGIN" {
							_, err = shops.Insert(ctx, tx, customer)
							assert.NoError(t, err, "insert after %s", text)
						}
					}
					return 1, then
				})
				if then == nil && statements[0] != "ROLLBACK" {
					continue // all of it was committed, and the record too
				}
				wantLoose(t, b, customer, err)
			}
		}
	})
}

// wantLoose checks the error of such work, and that a duplicate has no second effect.
func wantLoose(t *testing.T, s *shops.Shop, customer string, err error) {
	t.Helper()
	assert.ErrorIs(t, err, retrysafe.ErrTxEnded, "%s", customer)
	assert.True(t, !errors.Is(err, retrysafe.ErrUnavailable), "%s: %v", customer, err)
	_, again := retrysafe.Retryable(err)
	assert.True(t, !again, "%s: it is not retryable: %v", customer, err)
	before := s.Orders(t, customer)
	assert.True(t, before <= 1, "%s: orders: %d", customer, before)
	_, err = s.Order(t.Context(), customer)
	assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "%s: a repeat", customer)
	assert.Equal(t, s.Orders(t, customer), before, "%s: orders after a repeat", customer)
}

// TestPgxTxLoose is TestTxLoose in pgx transactions.
func TestPgxTxLoose(t *testing.T) {
	t.Parallel()
	s := newPgxShop(t, servers.StartPostgres(t).URL())
	for name, then := range endings {
		_, err := s.order(t.Context(), name, s.db, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "ROLLBACK")
			assert.NoError(t, err, "ROLLBACK")
			_, err = tx.Exec(ctx, "INSERT INTO orders (customer) VALUES ($1)", name)
			assert.NoError(t, err, "insert")
			return then
		})
		wantLoose(t, s.Shop, name, err)
	}
}

// TestTxLooseJoined: in a transaction of the caller the error says that it has ended.
func TestTxLooseJoined(t *testing.T) {
	t.Parallel()
	shops.Each(t, func(t *testing.T, a, _ *shops.Shop) {
		t.Helper()
		for how, end := range map[string]func(context.Context, *sql.Tx) error{
			"ROLLBACK": func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "ROLLBACK")
				return err
			},
			"tx.Commit": func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
		} {
			for name, then := range endings {
				_, _, err := a.Join(t, how+", "+name, func(tx *sql.Tx) error { return errors.Join(end(t.Context(), tx), then) })
				assert.ErrorIs(t, err, retrysafe.ErrTxEnded, "%s, %s", how, name)
				assert.True(t, !errors.Is(err, retrysafe.ErrUnavailable), "%s, %s: %v", how, name, err)
				_, again := retrysafe.Retryable(err)
				assert.True(t, !again, "%s, %s: it is not retryable: %v", how, name, err)
			}
		}
	})
}

// TestTxCommitRefused: a COMMIT that a deferred constraint refuses is an error of the work. Nothing
// was stored, and the next call runs.
func TestTxCommitRefused(t *testing.T) {
	t.Parallel()
	open := servers.WithPostgres(map[string]func(*testing.T) *shops.Shop{
		"SQLite": func(t *testing.T) *shops.Shop {
			t.Helper()
			return shops.New(t, sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(sqltest.NewFile(t))+"&_pragma=foreign_keys(1)"), nil)
		},
	}, func(v *servers.PostgresVersion) func(*testing.T) *shops.Shop {
		return func(t *testing.T) *shops.Shop { t.Helper(); return shops.OnPostgres(v.Database(t)).Shop(t) }
	})
	for name, open := range open {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			for _, q := range []string{
				"CREATE TABLE parent (id INT PRIMARY KEY)",
				"CREATE TABLE child (id INT REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)",
			} {
				sqltest.Exec(t, s.DB, q)
			}
			order := func(s *shops.Shop) error {
				_, err := retrysafe.DoTx(t.Context(), s.Engine, s.Store, teststores.OrderKey("ada"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
					_, err := tx.ExecContext(ctx, "INSERT INTO child VALUES (7)")
					return 1, err
				})
				return err
			}
			step := func(s *shops.Shop) error {
				p := &packing{s, t}
				return p.doStep(func(ctx context.Context, tx *sql.Tx) (int64, error) {
					_, err := tx.ExecContext(ctx, "INSERT INTO child VALUES (7)")
					return 1, err
				})
			}
			for what, do := range map[string]func(*shops.Shop) error{"DoTx": order, "StepTx": step} {
				err := do(s)
				assert.ErrorIs(t, err, retrysafe.ErrCommitRefused, "%s", what)
				assert.True(t, !errors.Is(err, retrysafe.ErrUnavailable) && !errors.Is(err, retrysafe.ErrInDoubt), "%s: %v", what, err)
			}
			s.WantNothing(t, "ada", "a refused COMMIT")
			sqltest.Exec(t, s.DB, "INSERT INTO parent VALUES (7)")
			for what, do := range map[string]func(*shops.Shop) error{"DoTx": order, "StepTx": step} {
				assert.NoError(t, do(s), "%s, with the parent", what)
			}
		})
	}
}
