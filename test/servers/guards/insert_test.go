package guards_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/guard"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
)

// firstPlaceholder returns the first placeholder of a statement.
func (w *guardDB) firstPlaceholder(n int) string {
	if w.d == dbtx.PostgreSQL {
		return fmt.Sprint("$", n)
	}
	return "?"
}

// TestGuardUnique: of many duplicates one inserts the row. The others get Repeat if the row is
// theirs, and a conflict if it is another request's.
func TestGuardUnique(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		votes := guard.Unique{Table: "vote", Columns: []string{"voter", "poll"}, Key: "by_key"}
		vote := func(key, voter, receipt string) guardedCall {
			return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				return votes.Insert(ctx, tx, byKey(key), guard.Set{"poll": 1, "voter": voter, "choice": "b", "receipt": receipt})
			}
		}
		w.checkCopies(t, vote("a", "ann", "r1"))
		w.wantErr(t, guard.ErrConflict, "the voter's second vote, with a new key", vote("b", "ann", "r2"))
		w.wantOut(t, guard.Applied, "another voter", vote("b", "bob", "r2"))
		w.wantErr(t, guard.ErrConflict, "another index", vote("c", "eve", "r1"))
		assert.Equal(t, w.queryNumber(t, "SELECT count(*) FROM vote"), 2, "votes")

		// The transaction continues.
		w.wantOut(t, guard.Applied, "a repeat, and another vote in the same transaction", func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			if out, err := vote("a", "ann", "r1")(ctx, tx); out != guard.AlreadyApplied {
				return out, errors.Join(err, errNotCommitted)
			}
			return vote("d", "dan", "r4")(ctx, tx)
		})

		// A table that has only keys.
		done := guard.Unique{Table: "done", Columns: []string{"operation", "by_key"}, Key: "by_key"}
		for _, operation := range []string{"pay", "refund"} {
			w.checkCopies(t, func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				out, err := done.Insert(ctx, tx, byKey("a"), guard.Set{"operation": operation})
				if err != nil || out == guard.AlreadyApplied {
					return out, err
				}
				_, err = tx.Exec(ctx, "UPDATE account SET amount = amount - 10 WHERE id = 1")
				return out, err
			})
		}
		assert.Equal(t, w.queryNumber(t, "SELECT amount FROM account WHERE id = 1"), 80, "what is left")
	})
}

// TestGuardUniqueTry: an INSERT of the caller's own. The error names the index on each database,
// and the transaction continues.
func TestGuardUniqueTry(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		votes := guard.Unique{Table: "vote", Columns: []string{"poll", "voter"}, Key: "by_key"}
		vote := func(key, voter, receipt string) guardedCall {
			return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				digest, err := guard.Digest(byKey(key))
				if err != nil {
					return 0, err
				}
				return votes.Try(ctx, tx, func(ctx context.Context) error {
					_, err := tx.Exec(ctx, "INSERT INTO vote (poll, voter, receipt, by_key) VALUES (1, "+w.firstPlaceholder(1)+", "+w.firstPlaceholder(2)+", "+w.firstPlaceholder(3)+")", voter, receipt, digest)
					return err
				}, func(ctx context.Context) (bool, error) {
					return votes.Own(ctx, tx, byKey(key), guard.Set{"poll": 1, "voter": voter})
				})
			}
		}
		w.checkCopies(t, vote("a", "ann", "r1"))
		w.wantErr(t, guard.ErrConflict, "the voter's second vote", vote("b", "ann", "r2"))
		w.wantErr(t, guard.ErrConflict, "another index", vote("a", "bob", "r1"))
		w.wantOut(t, guard.Applied, "a repeat, and another vote in the same transaction", func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			if out, err := vote("a", "ann", "r1")(ctx, tx); out != guard.AlreadyApplied {
				return out, errors.Join(err, errNotCommitted)
			}
			return vote("d", "dan", "r4")(ctx, tx)
		})
		assert.Equal(t, w.queryNumber(t, "SELECT count(*) FROM vote"), 2, "votes")

		// What the error itself says.
		for _, c := range []struct {
			insert        string
			index, column string
		}{
			{"INSERT INTO vote (poll, voter) VALUES (1, 'ann')", "vote_once", "poll voter"},
			{"INSERT INTO vote (poll, voter, receipt) VALUES (2, 'ann', 'r1')", "vote_receipt", "receipt"},
			{"INSERT INTO account (id) VALUES (1)", map[dbtx.Dialect]string{dbtx.PostgreSQL: "account_pkey", dbtx.MySQL: "PRIMARY"}[w.d], "id"},
			{"INSERT INTO purchase (id) VALUES ('o1')", map[dbtx.Dialect]string{dbtx.PostgreSQL: "purchase_pkey", dbtx.MySQL: "PRIMARY"}[w.d], "id"},
		} {
			_, err := w.db.ExecContext(t.Context(), c.insert)
			got, ok := guard.DuplicateKey(err)
			assert.True(t, ok, "%v is a duplicate key", err)
			if w.d == dbtx.SQLite {
				assert.Equal(t, strings.Join(got.Columns, " "), c.column, "columns of %v", err)
			} else {
				assert.Equal(t, got.Index, c.index, "index of %v", err)
			}
		}
		_, err := w.db.ExecContext(t.Context(), "INSERT INTO vote (poll) VALUES (NULL)")
		_, ok := guard.DuplicateKey(err)
		assert.True(t, err != nil && !ok, "%v is none", err)
	})
}

// TestGuardUniqueTryUndone: effects of the function before its failed INSERT are undone on each
// database, so a duplicate has no effect.
func TestGuardUniqueTryUndone(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		votes := guard.Unique{Table: "vote", Columns: []string{"poll", "voter"}, Key: "by_key"}
		digest, err := guard.Digest(byKey("a"))
		assert.NoError(t, err, "Digest")
		for i, want := range []guard.Outcome{guard.Applied, guard.AlreadyApplied, guard.AlreadyApplied} {
			w.wantOut(t, want, fmt.Sprint("call ", i), func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				return votes.Try(ctx, tx, func(ctx context.Context) error {
					if _, err := tx.Exec(ctx, "UPDATE account SET points = points + 1 WHERE id = 1"); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, "INSERT INTO vote (poll, voter, by_key) VALUES (1, 'ann', "+w.firstPlaceholder(1)+")", digest)
					return err
				}, func(ctx context.Context) (bool, error) {
					return votes.Own(ctx, tx, byKey("a"), guard.Set{"poll": 1, "voter": "ann"})
				})
			})
			assert.Equal(t, w.queryNumber(t, "SELECT points FROM account WHERE id = 1"), 1, "points")
		}
	})
}

// TestGuardUniqueTooOld: on PostgreSQL, a transaction whose snapshot is older than the request's
// own row gets an error that asks for a new transaction, and not a conflict.
func TestGuardUniqueTooOld(t *testing.T) {
	t.Parallel()
	servers.EachPostgres(t, func(t *testing.T, v *servers.PostgresVersion) {
		t.Helper()
		testGuardUniqueTooOld(t, guardOnPostgres(t, v))
	})
}

func testGuardUniqueTooOld(t *testing.T, w *guardDB) {
	t.Helper()
	sqltest.Exec(t, w.db, "CREATE TABLE late (a INT PRIMARY KEY, b INT, by_key VARCHAR(64), UNIQUE (b) DEFERRABLE)")
	votes := guard.Unique{Table: "vote", Columns: []string{"poll", "voter"}, Key: "by_key"}
	late := guard.Unique{Table: "late", Columns: []string{"a"}, Key: "by_key"}
	for name, vote := range map[string]func(string) guardedCall{
		"Try": func(key string) guardedCall {
			return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				digest, err := guard.Digest(byKey(key))
				assert.NoError(t, err, "Digest")
				return votes.Try(ctx, tx, func(ctx context.Context) error {
					_, err := tx.Exec(ctx, "INSERT INTO vote (poll, voter, by_key) VALUES (1, 'ann', $1)", digest)
					return err
				}, func(ctx context.Context) (bool, error) {
					return votes.Own(ctx, tx, byKey(key), guard.Set{"poll": 1, "voter": "ann"})
				})
			}
		},
		"Insert beside a DEFERRABLE constraint": func(key string) guardedCall {
			return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				return late.Insert(ctx, tx, byKey(key), guard.Set{"a": 1, "b": 1})
			}
		},
		"Insert": func(key string) guardedCall {
			return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				return votes.Insert(ctx, tx, byKey(key), guard.Set{"poll": 2, "voter": "ann"})
			}
		},
	} {
		for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
			sqltest.Exec(t, w.db, "DELETE FROM vote")
			sqltest.Exec(t, w.db, "DELETE FROM late")
			tries := 0
			try := func(key string) (out guard.Outcome, err error) {
				return tryGuard(t.Context(), w.db, w.d, &sql.TxOptions{Isolation: level}, func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
					var n int64
					assert.NoError(t, tx.QueryRow(ctx, "SELECT count(*) FROM vote", nil, &n), "from here on it sees nothing new")
					if tries++; tries == 1 {
						w.wantOut(t, guard.Applied, name+", first", vote("a"))
					}
					return vote(key)(ctx, tx)
				})
			}
			_, err := try("a")
			assert.True(t, txUndone(err) && !errors.Is(err, guard.ErrConflict), "%s at %s: %v", name, level, err)
			out, err := try("a")
			assert.True(t, err == nil && out == guard.AlreadyApplied, "%s at %s, made anew: %s, %v", name, level, out, err)
			_, err = try("b")
			assert.ErrorIs(t, err, guard.ErrConflict, "%s at %s, another request", name, level)
		}
	}
}

// TestGuardPrimaryKey: the id that was chosen before the submission is the row's key. The second
// INSERT returns success, but one with another request's id does not.
func TestGuardPrimaryKey(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		orders := guard.PrimaryKey{Table: "purchase", ID: "id", Key: "by_key"}
		const id = "01950000-0000-7000-8000-000000000001"
		order := func(customer string) guardedCall {
			return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				by := byKey(id)
				by.Tenant = customer
				return orders.Insert(ctx, tx, id, by, guard.Set{"customer": customer, "status": "placed"})
			}
		}
		w.checkCopies(t, order("ann"))
		w.wantErr(t, guard.ErrConflict, "another customer with the same id", order("eve"))
		sqltest.Exec(t, w.db, "UPDATE purchase SET status = 'paid'")
		w.wantOut(t, guard.AlreadyApplied, "a repeat of a row that has gone on", order("ann"))
		w.wantErr(t, guard.ErrConflict, "a row that no request has made", func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return orders.Insert(ctx, tx, "o1", byKey("o1"), nil)
		})
		assert.Equal(t, w.queryNumber(t, "SELECT count(*) FROM purchase WHERE customer = 'ann' AND id <> 'o1'"), 1, "orders")
	})
}

// TestGuardPrimaryKeyNumbered: a table that numbers its rows itself is refused, except on SQLite,
// which keeps a given id.
func TestGuardPrimaryKeyNumbered(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		for i, column := range map[dbtx.Dialect][]string{
			dbtx.SQLite:     {"INTEGER PRIMARY KEY", "INTEGER PRIMARY KEY AUTOINCREMENT"},
			dbtx.PostgreSQL: {"BIGINT PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY", "BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY", "BIGSERIAL PRIMARY KEY", "BIGINT PRIMARY KEY DEFAULT 5"},
			dbtx.MySQL:      {"BIGINT PRIMARY KEY AUTO_INCREMENT", "SERIAL PRIMARY KEY", "BIGINT PRIMARY KEY DEFAULT 5"},
		}[w.d] {
			table := fmt.Sprint("numbered", i)
			sqltest.Exec(t, w.db, "CREATE TABLE "+table+" (id "+column+", by_key VARCHAR(64))")
			rows := guard.PrimaryKey{Table: table, ID: "id", Key: "by_key"}
			insert := func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				return rows.Insert(ctx, tx, 7, byKey("a"), nil)
			}
			if w.d != dbtx.SQLite && !strings.HasSuffix(column, "DEFAULT 5") {
				w.wantErr(t, guard.ErrMisuse, column, insert)
				continue
			}
			for _, want := range []guard.Outcome{guard.Applied, guard.AlreadyApplied} {
				w.wantOut(t, want, column, insert)
			}
		}
	})
}

// TestGuardUpsert: all concurrent requests count, and with their key in the same transaction each
// counts once.
func TestGuardUpsert(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		points := guard.Upsert{Table: "points", Columns: []string{"member"}}
		add := func(member string) func(context.Context, dbtx.Tx) error {
			return func(ctx context.Context, tx dbtx.Tx) error {
				return points.Put(ctx, tx, guard.Set{"member": member}, guard.Set{"total": 20}, guard.Set{"total": guard.Add(20)})
			}
		}
		total := func(member string) int64 {
			return w.queryNumber(t, "SELECT total FROM points WHERE member = '"+member+"'")
		}
		s := w.newShop(t)
		s.doCopies(t, "copies", add("ann"))
		assert.Equal(t, total("ann"), 20, "points of 100 copies with a key")
		for range 2 {
			w.wantOut(t, guard.Applied, "without a key", func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) { return outcomeOf(add("bob")(ctx, tx)) })
		}
		assert.Equal(t, total("bob"), 40, "points of one request that was sent twice without a key")
		same := func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return outcomeOf(points.Put(ctx, tx, guard.Set{"member": "bob"}, nil, guard.Set{"total": 40}))
		}
		w.wantOut(t, guard.Applied, "an update that changes nothing", same)
		sqltest.Exec(t, w.db, "UPDATE points SET card = 'c1', total = NULL WHERE member = 'ann'")
		w.wantErr(t, guard.ErrConflict, "a row that another index has", func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return outcomeOf(points.Put(ctx, tx, guard.Set{"member": "eve"}, guard.Set{"card": "c1"}, guard.Set{"total": 1000}))
		})
		assert.Equal(t, w.queryText(t, "SELECT total FROM points WHERE member = 'ann'"), "", "the other's points")
		_, err := s.doGuarded(t.Context(), "null", add("ann"))
		assert.NoError(t, err, "points that are NULL")
		assert.Equal(t, total("ann"), 20, "points that were NULL")
	})
}

// TestGuardUpsertOtherIndex: if another unique index has a conflicting row too, only the intended
// row is changed. Put never returns nil if nothing was written.
func TestGuardUpsertOtherIndex(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		sqltest.Exec(t, w.db, "INSERT INTO points (member, total, card) VALUES ('ann', 0, 'c1'), ('eve', 0, NULL)")
		byCard := guard.Upsert{Table: "points", Columns: []string{"card"}}
		put := func(card, member string, update guard.Set) guardedCall {
			return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				return outcomeOf(byCard.Put(ctx, tx, guard.Set{"card": card}, guard.Set{"member": member, "total": 20}, update))
			}
		}
		totals := func() string {
			return fmt.Sprint(w.queryNumber(t, "SELECT total FROM points WHERE member = 'ann'"), w.queryNumber(t, "SELECT total FROM points WHERE member = 'eve'"))
		}
		add := guard.Set{"total": guard.Add(20)}
		w.wantOut(t, guard.Applied, "a row of the card, beside one of the member", put("c1", "eve", add))
		assert.Equal(t, totals(), "20 0", "points")
		w.wantOut(t, guard.Applied, "the same values again", put("c1", "eve", guard.Set{"total": 20}))
		w.wantErr(t, guard.ErrConflict, "a card that nobody has, and a member that is there", put("c2", "eve", add))
		assert.Equal(t, totals(), "20 0", "points")
		if w.d == dbtx.MySQL {
			// MySQL counts a row of another index as changed if a trigger changes it.
			sqltest.Exec(t, w.db, "ALTER TABLE points ADD COLUMN seen INT NOT NULL DEFAULT 0")
			sqltest.Exec(t, w.db, "CREATE TRIGGER seen BEFORE UPDATE ON points FOR EACH ROW SET NEW.seen = OLD.seen + 1")
			w.wantErr(t, guard.ErrConflict, "a trigger that changes each row that is met", put("c2", "eve", add))
			assert.Equal(t, totals(), "20 0", "points")
		}
	})
}

// TestGuardUpsertSwallowed: a trigger that skips the write is reported.
func TestGuardUpsertSwallowed(t *testing.T) {
	t.Parallel()
	for _, open := range []func(*testing.T) *guardDB{func(t *testing.T) *guardDB { t.Helper(); return guardOnPostgres(t, servers.PostgresVersions[0]) }, func(t *testing.T) *guardDB { t.Helper(); return guardOnSQLite(t, sqltest.NewFile(t)) }} {
		for _, when := range []string{"INSERT", "UPDATE"} {
			w := open(t)
			sqltest.Exec(t, w.db, "INSERT INTO points (member, total) VALUES ('bob', 1)")
			if w.d == dbtx.SQLite {
				sqltest.Exec(t, w.db, "CREATE TRIGGER swallow BEFORE "+when+" ON points BEGIN SELECT RAISE(IGNORE); END")
			} else {
				sqltest.Exec(t, w.db, "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
				sqltest.Exec(t, w.db, "CREATE TRIGGER swallow BEFORE "+when+" ON points FOR EACH ROW EXECUTE FUNCTION swallow()")
			}
			points := guard.Upsert{Table: "points", Columns: []string{"member"}}
			w.wantErr(t, guard.ErrMisuse, when+" on "+w.name, func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				member := map[string]string{"INSERT": "ann", "UPDATE": "bob"}[when]
				return outcomeOf(points.Put(ctx, tx, guard.Set{"member": member}, guard.Set{"total": 20}, guard.Set{"total": guard.Add(20)}))
			})
		}
	}
}

// TestSelectThenInsert: without a guard, two concurrent requests both find no row, and both insert
// one.
func TestSelectThenInsert(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		sqltest.Exec(t, w.db, "CREATE TABLE tally (member VARCHAR(40), total BIGINT)")
		found := func() int64 { return w.queryNumber(t, "SELECT count(*) FROM tally WHERE member = 'ann'") }
		first, second := found(), found()
		for _, n := range []int64{first, second} {
			if n == 0 {
				sqltest.Exec(t, w.db, "INSERT INTO tally VALUES ('ann', 20)")
			}
		}
		assert.Equal(t, found(), 2, "rows of one member")
	})
}
