package guard_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/guard"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

var by = retrysafe.Key{Tenant: "ann", Operation: "pay", ID: "8e03978e"}

type status string

func moves() map[status][]status {
	return map[status][]status{"placed": {"paid", "cancelled"}, "paid": {"done", "cancelled"}}
}

func machine(tb testing.TB, moves map[status][]status, o *guard.MachineOptions) *guard.Machine[status] {
	tb.Helper()
	m, err := guard.NewMachine("orders", "id", "status", moves, o)
	assert.NoError(tb, err, "a machine")
	return m
}

// call is one use of a guard, as users write it.
type call struct {
	name string
	run  func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error)
	// added is how many statements the guard costs beyond the one that the caller would send
	// anyway. more is what it costs in addition on some dialects.
	added int
	more  map[dbtx.Dialect]int
	want  map[dbtx.Dialect]string
}

func errOnly(err error) (guard.Outcome, error) {
	if err != nil {
		return 0, err
	}
	return guard.Applied, nil
}

// calls returns one call of each guard, with new values.
func calls(tb testing.TB) []call {
	tb.Helper()
	version := &guard.Version{Table: "shop.account", ID: "id", Column: "version", LastKey: "last_key"}
	unique := &guard.Unique{Table: "vote", Columns: []string{"poll", "voter"}, Key: "by_key"}
	primary := &guard.PrimaryKey{Table: "orders", ID: "id", Key: "by_key"}
	condition := &guard.Condition{Table: "account", ID: "id", Column: "amount"}
	lock := &guard.RowLock{Table: "account", ID: "id", Columns: []string{"amount", "version"}}
	short := &guard.RowLock{Table: "account", ID: "id", Columns: []string{"amount", "version"}, Wait: 1500 * time.Millisecond}
	fence := &guard.Fence{Table: "job", ID: "id", Column: "fence"}
	upsert := &guard.Upsert{Table: "points", Columns: []string{"member"}}
	forward, again := machine(tb, moves(), nil), machine(tb, map[status][]status{"on": {"off"}, "off": {"on"}}, &guard.MachineOptions{LastKey: "last_key"})
	locked := func(l *guard.RowLock) func(context.Context, dbtx.Tx) (guard.Outcome, error) {
		return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			if f, ok := tx.(*fakeTx); ok {
				f.answers = []answer{{values: []any{int64(5), int64(1)}}, {values: []any{int64(5), int64(1)}}}
			}
			var amount, version int64
			return errOnly(l.Lock(ctx, tx, 7, func() error { return nil }, &amount, &version))
		}
	}
	return []call{
		{name: "Version", run: func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return version.Update(ctx, tx, 7, 3, by, guard.Set{"points": guard.Add(20), "note": "x"})
		}, want: map[dbtx.Dialect]string{
			dbtx.SQLite: "UPDATE `shop`.`account` SET `note` = ?, `points` = COALESCE(`points`, 0) + ?, `version` = `version` + 1, `last_key` = ? " +
				"WHERE `id` = ? AND `version` = ? AND (`last_key` IS NULL OR `last_key` <> ?) [x 20 digest 7 3 digest]",
			dbtx.PostgreSQL: `UPDATE "shop"."account" SET "note" = $1, "points" = COALESCE("points", 0) + $2, "version" = "version" + 1, "last_key" = $3 ` +
				`WHERE "id" = $4 AND "version" = $5 AND ("last_key" IS NULL OR "last_key" <> $6) [x 20 digest 7 3 digest]`,
			dbtx.MySQL: "UPDATE `shop`.`account` SET `note` = ?, `points` = COALESCE(`points`, 0) + ?, `version` = `version` + 1, `last_key` = ? " +
				"WHERE `id` = ? AND `version` = ? AND (`last_key` IS NULL OR `last_key` <> ?) [x 20 digest 7 3 digest]",
		}},
		{name: "Unique.Insert", run: func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return unique.Insert(ctx, tx, by, guard.Set{"poll": 1, "voter": "ann", "choice": "b"})
		}, want: map[dbtx.Dialect]string{
			dbtx.SQLite:     "INSERT INTO `vote` (`choice`, `poll`, `voter`, `by_key`) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING [b 1 ann digest]",
			dbtx.PostgreSQL: `INSERT INTO "vote" ("choice", "poll", "voter", "by_key") VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING [b 1 ann digest]`,
			dbtx.MySQL:      "INSERT INTO `vote` (`choice`, `poll`, `voter`, `by_key`) VALUES (?, ?, ?, ?) [b 1 ann digest]",
		}},
		{name: "Unique.Try", added: 2, run: func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return unique.Try(ctx, tx, func(ctx context.Context) error {
				_, err := tx.Exec(ctx, "INSERT of the caller's own")
				return err
			}, func(context.Context) (bool, error) { return false, nil })
		}},
		{name: "PrimaryKey", run: func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return primary.Insert(ctx, tx, "0195", by, nil)
		}, want: map[dbtx.Dialect]string{dbtx.PostgreSQL: `INSERT INTO "orders" ("id", "by_key") VALUES ($1, $2) ON CONFLICT DO NOTHING [0195 digest]`}},
		{name: "Condition", run: func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return errOnly(condition.Subtract(ctx, tx, 7, 100))
		}, want: map[dbtx.Dialect]string{dbtx.PostgreSQL: `UPDATE "account" SET "amount" = "amount" - $1 WHERE "id" = $2 AND "amount" >= $3 [100 7 100]`}},
		// The caller would send the first SELECT anyway.
		{name: "RowLock", added: 1, more: map[dbtx.Dialect]int{dbtx.SQLite: -1}, run: locked(lock), want: map[dbtx.Dialect]string{
			dbtx.SQLite:     "SELECT `amount`, `version` FROM `account` WHERE `id` = ? [7]",
			dbtx.PostgreSQL: `SELECT "amount", "version" FROM "account" WHERE "id" = $1 [7]|SELECT "amount", "version" FROM "account" WHERE "id" = $1 FOR UPDATE [7]`,
		}},
		{name: "RowLock with Wait", added: 1, more: map[dbtx.Dialect]int{dbtx.SQLite: -1, dbtx.MySQL: 2}, run: locked(short), want: map[dbtx.Dialect]string{
			dbtx.MySQL: "SELECT `amount`, `version` FROM `account` WHERE `id` = ? [7]|SET @retrysafe_guard = @@innodb_lock_wait_timeout, innodb_lock_wait_timeout = 2 []|" +
				"SELECT `amount`, `version` FROM `account` WHERE `id` = ? FOR UPDATE [7]|SET innodb_lock_wait_timeout = @retrysafe_guard []",
		}},
		{name: "Machine.Move", run: func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return forward.Move(ctx, tx, 7, "placed", "paid", guard.Set{"note": "x"})
		}, want: map[dbtx.Dialect]string{dbtx.PostgreSQL: `UPDATE "orders" SET "status" = $1, "note" = $2 WHERE "id" = $3 AND "status" = $4 [paid x 7 placed]`}},
		{name: "Machine.MoveBy", run: func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return again.MoveBy(ctx, tx, 7, by, "on", "off", nil)
		}, want: map[dbtx.Dialect]string{dbtx.MySQL: "UPDATE `orders` SET `status` = ?, `last_key` = ? WHERE `id` = ? AND `status` = ? AND (`last_key` IS NULL OR `last_key` <> ?) [off digest 7 on digest]"}},
		// It is sent in addition to the caller's own statement.
		{name: "Fence", added: 1, run: func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			_, _ = tx.Exec(ctx, "UPDATE of the caller's own")
			return errOnly(fence.Check(ctx, tx, 7, 12))
		}, want: map[dbtx.Dialect]string{dbtx.MySQL: "UPDATE of the caller's own []|UPDATE `job` SET `fence` = ? WHERE `id` = ? AND (`fence` IS NULL OR `fence` <= ?) [12 7 12]"}},
		{name: "Upsert", run: func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return errOnly(upsert.Put(ctx, tx, guard.Set{"member": "ann"}, guard.Set{"total": 20}, guard.Set{"total": guard.Add(20)}))
		}, want: map[dbtx.Dialect]string{
			dbtx.SQLite: "INSERT INTO `points` AS t (`member`, `total`) VALUES (?, ?) ON CONFLICT (`member`) DO UPDATE SET `total` = COALESCE(t.`total`, 0) + ? [ann 20 20]",
			dbtx.MySQL: "INSERT INTO `points` (`member`, `total`) VALUES (?, ?) ON DUPLICATE KEY UPDATE `total` = IF(`member` = ?, COALESCE(`total`, 0) + ?, " +
				"(SELECT `total` UNION ALL SELECT `total`)) [ann 20 ann 20]",
		}},
	}
}

// TestStatements: the statements that each guard sends, and how many it adds to those that the
// caller would send without it. The catalogue is queried once.
func TestStatements(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		for _, c := range calls(t) {
			tx := newFakeTx(d)
			for i := range 3 {
				tx.sent = nil
				out, err := c.run(t.Context(), tx)
				assert.NoError(t, err, "%s on %s", c.name, d)
				assert.Equal(t, out, guard.Applied, "%s on %s", c.name, d)
				if want, ok := c.want[d]; ok {
					assert.Equal(t, strings.Join(tx.sent, "|"), want, "%s on %s", c.name, d)
				}
				assert.Equal(t, len(tx.sent), 1+c.added+c.more[d], "statements of %s on %s, call %d: %q", c.name, d, i, tx.sent)
				if i > 0 && !strings.HasPrefix(c.name, "RowLock") {
					// RowLock locks SQLite's file with such a statement.
					assert.Equal(t, tx.asked, 0, "questions to the catalogue, %s on %s", c.name, d)
				}
				tx.asked = 0
			}
		}
	}
}

// TestCatalogueOnlySuccessIsRemembered: a table without the index is checked each time, and the
// error has the statement that creates the index. Once the index exists, it is not checked again.
func TestCatalogueOnlySuccessIsRemembered(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		account := guard.Version{Table: "account", ID: "id", Column: "version", LastKey: "last_key"}
		tx := newFakeTx(d)
		try := func() error {
			_, err := account.Update(t.Context(), tx, 7, 3, by, guard.Set{"points": 1})
			return err
		}
		for range 2 {
			tx.noIndex = true
			err := try()
			assert.ErrorIs(t, err, guard.ErrMisuse, "without the index")
			assert.Contains(t, err.Error(), "CREATE UNIQUE INDEX ", "the error")
			tx.noIndex, tx.table = false, "none"
			assert.Contains(t, try().Error(), "there is no table account", "the error")
			tx.table, tx.narrow = "", true
			assert.Contains(t, try().Error(), "last_key", "the error")
			tx.narrow = false
		}
		tx.table = "plain"
		assert.Contains(t, try().Error(), "ENGINE=InnoDB", "the error")
		assert.Equal(t, len(tx.sent), 0, "statements until then")
		tx.table = ""
		assert.NoError(t, try(), "with the index")
		tx.noIndex, tx.asked = true, 0
		assert.NoError(t, try(), "once more")
		assert.Equal(t, tx.asked, 0, "questions")
	}
}

// BenchmarkGuards uses a transaction that costs nothing, so it measures only the guard.
func BenchmarkGuards(b *testing.B) {
	for _, c := range calls(b) {
		b.Run(c.name, func(b *testing.B) {
			tx := nothing{dbtx.PostgreSQL, &fakeTx{d: dbtx.PostgreSQL}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.run(b.Context(), tx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// nothing is a transaction in which everything succeeds.
type nothing struct {
	d    dbtx.Dialect
	asks *fakeTx
}

func (n nothing) Dialect() dbtx.Dialect                             { return n.d }
func (nothing) Exec(context.Context, string, ...any) (int64, error) { return 1, nil }

func (n nothing) QueryRow(_ context.Context, query string, _ []any, dest ...any) error {
	if strings.Contains(query, "pg_") {
		return n.asks.catalogue(query, dest)
	}
	return nil
}
