package guards_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/guard"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
)

// TestGuardKinds: a text for a numeric column, or a number for a text column, which databases
// compare loosely, matches no row: "1 or so" is not 1, and 123 is not '0123'.
func TestGuardKinds(t *testing.T) {
	t.Parallel()
	type userID string
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		sqltest.Exec(t, w.db, "CREATE TABLE wallet (id VARCHAR(20) PRIMARY KEY, amount BIGINT)")
		sqltest.Exec(t, w.db, "INSERT INTO wallet VALUES ('0123', 100)")
		sqltest.Exec(t, w.db, "CREATE TABLE price (amount DECIMAL(10, 2) PRIMARY KEY, n BIGINT, by_key VARCHAR(64))")
		sqltest.Exec(t, w.db, "INSERT INTO price (amount, n) VALUES (1.5, 7)")
		account := guard.Condition{Table: "account", ID: "id", Column: "amount"}
		version := guard.Version{Table: "account", ID: "id", Column: "version", LastKey: "last_key"}
		fence := guard.Fence{Table: "job", ID: "id", Column: "fence"}
		lock := guard.RowLock{Table: "account", ID: "id", Columns: []string{"amount"}}
		short := guard.RowLock{Table: "account", ID: "id", Columns: []string{"amount"}, Wait: 1e9}
		jobs, err := guard.NewMachine("account", "id", "points", map[int][]int{0: {1}}, nil)
		assert.NoError(t, err, "the machine")
		made := guard.PrimaryKey{Table: "account", ID: "id", Key: "last_key"}
		votes := guard.Unique{Table: "vote", Columns: []string{"poll", "voter"}, Key: "by_key"}
		points := guard.Upsert{Table: "points", Columns: []string{"member"}}
		byID := map[string]func(any) guardedCall{
			"Condition": func(id any) guardedCall {
				return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
					return outcomeOf(account.Subtract(ctx, tx, id, 1))
				}
			},
			"Version": func(id any) guardedCall {
				return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
					return version.Update(ctx, tx, id, 1, byKey("a"), guard.Set{"points": 5})
				}
			},
			"Fence": func(id any) guardedCall {
				return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
					return outcomeOf(fence.Check(ctx, tx, id, 7))
				}
			},
			"RowLock": func(id any) guardedCall {
				return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
					var n int64
					return outcomeOf(lock.Lock(ctx, tx, id, func() error { return nil }, &n))
				}
			},
			"RowLock with Wait": func(id any) guardedCall {
				return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
					var n int64
					return outcomeOf(short.Lock(ctx, tx, id, func() error { return nil }, &n))
				}
			},
			"Machine": func(id any) guardedCall {
				return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) { return jobs.Move(ctx, tx, id, 0, 1, nil) }
			},
			"PrimaryKey": func(id any) guardedCall {
				return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
					return made.Insert(ctx, tx, id, byKey("a"), nil)
				}
			},
		}
		one := "1"
		for name, f := range byID {
			for _, id := range []any{"1abc", "1 or so", " 1", "1.0", []byte("1"), userID("1"), &one, sql.NullString{String: "1", Valid: true}, 1.5, float64(1 << 60)} {
				w.wantErr(t, guard.ErrMisuse, name, f(id))
			}
		}
		wallet := guard.Condition{Table: "wallet", ID: "id", Column: "amount"}
		number := 123
		for _, id := range []any{123, uint8(123), 123.0, &number, true, sql.NullInt64{Int64: 123, Valid: true}} {
			w.wantErr(t, guard.ErrMisuse, "a number for a column of texts", func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				return outcomeOf(wallet.Subtract(ctx, tx, id, 1))
			})
		}
		for what, f := range map[string]guardedCall{
			"Unique.Insert, a column": func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				return votes.Insert(ctx, tx, byKey("a"), guard.Set{"poll": "1x", "voter": "ann"})
			},
			"Unique.Own": func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				_, err := votes.Own(ctx, tx, byKey("a"), guard.Set{"poll": 1, "voter": 0})
				return outcomeOf(err)
			},
			"Upsert": func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				return outcomeOf(points.Put(ctx, tx, guard.Set{"member": 7}, nil, guard.Set{"total": 1}))
			},
		} {
			w.wantErr(t, guard.ErrMisuse, what, f)
		}
		assert.Equal(t, w.queryNumber(t, "SELECT sum(amount) FROM account")+w.queryNumber(t, "SELECT sum(amount) FROM wallet"), 300, "what is there")

		// Values of the column's kind, in any Go type.
		seven := int64(1)
		for _, id := range []any{1, uint16(1), &seven, sql.NullInt64{Int64: 1, Valid: true}} {
			w.wantOut(t, guard.Applied, "a number", byID["Condition"](id))
		}
		for _, id := range []any{"0123", userID("0123"), sql.NullString{String: "0123", Valid: true}} {
			w.wantOut(t, guard.Applied, "a text", func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				return outcomeOf(wallet.Subtract(ctx, tx, id, 1))
			})
		}
		price := guard.Condition{Table: "price", ID: "amount", Column: "n"}
		w.wantOut(t, guard.Applied, "a decimal, which is a text to the driver", func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return outcomeOf(price.Subtract(ctx, tx, "1.50", 1))
		})
		w.wantErr(t, guard.ErrMisuse, "a text that is no decimal", func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return outcomeOf(price.Subtract(ctx, tx, "1.5 or so", 1))
		})
	})
}

// TestGuardRounded: a time that the column would round is refused before it is written, since a
// duplicate would not find its row.
func TestGuardRounded(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
		at := time.Date(2026, 1, 2, 15, 4, 5, 678901234, time.UTC)
		types := map[string]time.Duration{"DATETIME": time.Second, "DATETIME(3)": time.Millisecond, "TIMESTAMP(6)": time.Microsecond, "DATE": 24 * time.Hour}
		switch w.d {
		case dbtx.PostgreSQL:
			types = map[string]time.Duration{
				"TIMESTAMPTZ(0)": time.Second, "TIMESTAMP(3)": time.Millisecond, "TIMESTAMPTZ": time.Nanosecond, "TIMESTAMPTZ(6)": time.Nanosecond, "DATE": time.Nanosecond,
			}
		case dbtx.SQLite:
			types = map[string]time.Duration{"DATETIME": time.Nanosecond, "DATE": time.Nanosecond}
		}
		n := 0
		for kind, unit := range types {
			n++
			table := fmt.Sprint("slot", n)
			sqltest.Exec(t, w.db, "CREATE TABLE "+table+" (starts "+kind+" NOT NULL, by_key VARCHAR(64))")
			sqltest.Exec(t, w.db, "CREATE UNIQUE INDEX "+table+"_once ON "+table+" (starts)")
			slots := guard.Unique{Table: table, Columns: []string{"starts"}, Key: "by_key"}
			book := func(key string, starts any) guardedCall {
				return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
					return slots.Insert(ctx, tx, byKey(key), guard.Set{"starts": starts})
				}
			}
			if unit > time.Microsecond {
				w.wantErr(t, guard.ErrMisuse, kind, book("a", at))
				w.wantErr(t, guard.ErrMisuse, kind, book("a", &at))
				w.wantErr(t, guard.ErrMisuse, kind, book("a", sql.NullTime{Time: at, Valid: true}))
			}
			for _, want := range []guard.Outcome{guard.Applied, guard.AlreadyApplied} {
				w.wantOut(t, want, kind, book("a", at.Truncate(unit)))
			}
			w.wantErr(t, guard.ErrConflict, kind, book("b", at.Truncate(unit)))
			for _, want := range []guard.Outcome{guard.Applied, guard.AlreadyApplied} {
				w.wantOut(t, want, kind+", a day", book("c", day.AddDate(0, 1, 0)))
			}
		}
	})
}
