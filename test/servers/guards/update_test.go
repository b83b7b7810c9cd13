package guards_test

import (
	"context"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/guard"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// guardedCall is an operation under a guard.
type guardedCall = func(context.Context, dbtx.Tx) (guard.Outcome, error)

// TestGuardVersion: of many duplicates one is applied. The key of the last writer tells a duplicate
// from a lost race.
func TestGuardVersion(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		account := guard.Version{Table: "account", ID: "id", Column: "version", LastKey: "last_key"}
		add := func(key string, version int64) guardedCall {
			return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				return account.Update(ctx, tx, 1, version, byKey(key), guard.Set{"points": guard.Add(20)})
			}
		}
		w.checkCopies(t, add("a", 1))
		assert.Equal(t, w.queryNumber(t, "SELECT points FROM account WHERE id = 1"), 20, "points")
		w.wantErr(t, guard.ErrStale, "another request that has seen the old version", add("b", 1))
		w.wantOut(t, guard.AlreadyApplied, "a retry that has read the new version", add("a", 2))
		w.wantOut(t, guard.Applied, "another request that has seen the new version", add("b", 2))
		w.wantErr(t, guard.ErrStale, "a late retry behind another writer", add("a", 1))
		w.wantErr(t, guard.ErrMissing, "no such row", func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return account.Update(ctx, tx, 9, 1, byKey("a"), guard.Set{"points": 1})
		})
		assert.Equal(t, w.queryNumber(t, "SELECT points FROM account WHERE id = 1"), 40, "points")
		assert.Equal(t, w.queryNumber(t, "SELECT version FROM account WHERE id = 1"), 3, "version")
		assert.Equal(t, len(w.queryText(t, "SELECT last_key FROM account WHERE id = 1")), guard.DigestLen, "what is kept of the key")

		s := w.newShop(t)
		for i, c := range []struct {
			key     string
			version int64
		}{{"c", 3}, {"d", 4}, {"c", 3}} {
			res, err := s.doGuarded(t.Context(), c.key, func(ctx context.Context, tx dbtx.Tx) error {
				_, err := add(c.key, c.version)(ctx, tx)
				return err
			})
			assert.NoError(t, err, "inside of DoTx")
			assert.Equal(t, res.Replayed, i == 2, "whether a late retry inside of DoTx gets its first answer")
		}
		assert.Equal(t, w.queryNumber(t, "SELECT points FROM account WHERE id = 1"), 80, "points")

		// Without a key column a duplicate looks like a lost race.
		bare := guard.Version{Table: "account", ID: "id", Column: "version"}
		once := func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return bare.Update(ctx, tx, 2, 1, retrysafe.Key{}, guard.Set{"points": 5})
		}
		w.wantOut(t, guard.Applied, "without a key column", once)
		w.wantErr(t, guard.ErrStale, "a repeat without a key column", once)

		sqltest.Exec(t, w.db, "UPDATE account SET version = NULL, points = NULL WHERE id = 2")
		w.wantErr(t, guard.ErrMisuse, "a version that is NULL", once)
		sqltest.Exec(t, w.db, "UPDATE account SET version = 1 WHERE id = 2")
		w.wantOut(t, guard.Applied, "points that are NULL", func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return account.Update(ctx, tx, 2, 1, byKey("n"), guard.Set{"points": guard.Add(7)})
		})
		assert.Equal(t, w.queryNumber(t, "SELECT points FROM account WHERE id = 2"), 7, "points that were NULL")
	})
}

// TestGuardVersionReadByTheServer: a version that the server reads itself only orders writers. With
// another key, as from a client that makes a new one for each try, a retry is applied again.
func TestGuardVersionReadByTheServer(t *testing.T) {
	t.Parallel()
	w := guardOnSQLite(t, sqltest.NewFile(t))
	account := guard.Version{Table: "account", ID: "id", Column: "version", LastKey: "last_key"}
	for _, try := range []string{"first", "retry"} {
		version := w.queryNumber(t, "SELECT version FROM account WHERE id = 1")
		w.wantOut(t, guard.Applied, try, func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return account.Update(ctx, tx, 1, version, byKey(try), guard.Set{"points": guard.Add(20)})
		})
	}
	assert.Equal(t, w.queryNumber(t, "SELECT points FROM account WHERE id = 1"), 40, "points of one operation that was sent twice")
}

// TestGuardVersionTime: a version may be a time. Two writers in one microsecond are told apart.
func TestGuardVersionTime(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		account := guard.Version{Table: "account", ID: "id", Column: "changed", LastKey: "last_key"}
		set := func(at time.Time) {
			place := map[dbtx.Dialect]string{dbtx.PostgreSQL: "$1"}[w.d]
			if place == "" {
				place = "?"
			}
			sqltest.Exec(t, w.db, "UPDATE account SET changed = "+place+" WHERE id = 1", at)
		}
		seen := func() (at time.Time) {
			assert.NoError(t, w.db.QueryRowContext(t.Context(), "SELECT changed FROM account WHERE id = 1").Scan(&at), "the time")
			return at
		}
		add := func(key string, version time.Time) guardedCall {
			return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				return account.UpdateAt(ctx, tx, 1, version, byKey(key), guard.Set{"points": guard.Add(20)})
			}
		}
		future := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
		set(future)
		first := seen()
		w.checkCopies(t, add("a", first))
		second := seen()
		assert.Equal(t, second.Sub(first), time.Microsecond, "a clock that is behind the last version")
		w.wantErr(t, guard.ErrStale, "the old version", add("b", first))
		w.wantOut(t, guard.Applied, "the new version", add("b", second))
		assert.Equal(t, w.queryNumber(t, "SELECT points FROM account WHERE id = 1"), 40, "points")

		if w.d == dbtx.SQLite {
			sqltest.Exec(t, w.db, "UPDATE account SET changed = '2026-01-02 03:04:05+08:00' WHERE id = 1")
			w.wantErr(t, guard.ErrMisuse, "a time in another form", add("c", seen()))
			set(time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC))
			w.wantErr(t, guard.ErrMisuse, "a time to the nanosecond, which no version is equal to", add("c", seen()))
			return
		}
		coarse := map[dbtx.Dialect]string{
			dbtx.PostgreSQL: "ALTER TABLE account ALTER COLUMN changed TYPE TIMESTAMPTZ(3)", dbtx.MySQL: "ALTER TABLE account MODIFY changed DATETIME",
		}[w.d]
		sqltest.Exec(t, w.db, coarse)
		anew := guard.Version{Table: "account", ID: "id", Column: "changed", LastKey: "last_key"}
		w.wantErr(t, guard.ErrMisuse, "a column of coarse times", func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return anew.UpdateAt(ctx, tx, 1, second, byKey("d"), guard.Set{"points": 1})
		})
	})
}

// TestGuardMachine: a move is made once, a duplicate gets Repeat, and an undeclared move is
// refused.
func TestGuardMachine(t *testing.T) {
	t.Parallel()
	type status string
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		orders, err := guard.NewMachine("purchase", "id", "status", map[status][]status{"placed": {"paid", "cancelled"}, "paid": {"sent"}, "sent": {"done"}}, nil)
		assert.NoError(t, err, "the machine")
		move := func(id string, from, to status) guardedCall {
			return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				return orders.Move(ctx, tx, id, from, to, guard.Set{"step": guard.Add(1)})
			}
		}
		w.checkCopies(t, move("o1", "placed", "paid"))
		assert.Equal(t, w.queryNumber(t, "SELECT step FROM purchase"), 2, "how often it was moved")
		w.wantOut(t, guard.Applied, "the next move", move("o1", "paid", "sent"))
		w.wantOut(t, guard.AlreadyApplied, "a late retry of the first", move("o1", "placed", "paid"))
		w.wantErr(t, guard.ErrIllegal, "what came too late", move("o1", "placed", "cancelled"))
		w.wantErr(t, guard.ErrIllegal, "a move that is not declared", move("o1", "sent", "placed"))
		w.wantErr(t, guard.ErrMissing, "no such row", move("o9", "placed", "paid"))
		assert.Equal(t, w.queryNumber(t, "SELECT step FROM purchase"), 3, "how often it was moved")
		sqltest.Exec(t, w.db, "UPDATE purchase SET status = NULL")
		w.wantErr(t, guard.ErrMisuse, "a state that is NULL", move("o1", "placed", "paid"))
		sqltest.Exec(t, w.db, "UPDATE purchase SET status = 'lost'")
		w.wantErr(t, guard.ErrIllegal, "a state that the machine does not know", move("o1", "placed", "paid"))

		type step int
		steps, err := guard.NewMachine("purchase", "id", "step", map[step][]step{1: {2}, 2: {3}}, nil)
		assert.NoError(t, err, "a machine of numbers")
		sqltest.Exec(t, w.db, "UPDATE purchase SET step = 1")
		for i, want := range []guard.Outcome{guard.Applied, guard.AlreadyApplied} {
			w.wantOut(t, want, []string{"a move of numbers", "its repeat"}[i], func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				return steps.Move(ctx, tx, "o1", 1, 2, nil)
			})
		}
	})
}

// TestGuardMachineCycle: in a machine with a cycle, the key of the last move detects a duplicate.
// After moves of others it does not, and a late retry moves the row again. Inside DoTx it gets its
// first answer.
func TestGuardMachineCycle(t *testing.T) {
	t.Parallel()
	type status string
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		orders, err := guard.NewMachine("purchase", "id", "status", map[status][]status{"placed": {"held"}, "held": {"placed", "held"}}, &guard.MachineOptions{LastKey: "last_key"})
		assert.NoError(t, err, "the machine")
		move := func(key string, from, to status) guardedCall {
			return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				return orders.MoveBy(ctx, tx, "o1", byKey(key), from, to, guard.Set{"step": guard.Add(1)})
			}
		}
		w.checkCopies(t, move("hold", "placed", "held"))
		w.wantErr(t, guard.ErrStale, "another request that wants the same", move("hold too", "placed", "held"))
		w.checkCopies(t, move("again", "held", "held")) // into the state that it is in
		w.wantOut(t, guard.Applied, "back", move("release", "held", "placed"))
		assert.Equal(t, w.queryNumber(t, "SELECT step FROM purchase"), 4, "how often it was moved")
		w.wantOut(t, guard.Applied, "a late retry behind the moves of others", move("hold", "placed", "held"))
		assert.Equal(t, w.queryNumber(t, "SELECT step FROM purchase"), 5, "it was moved once more")

		sqltest.Exec(t, w.db, "UPDATE purchase SET status = 'placed', step = 1, last_key = NULL")
		s := w.newShop(t)
		for i, m := range []struct {
			key      string
			from, to status
		}{{"hold", "placed", "held"}, {"release", "held", "placed"}, {"hold", "placed", "held"}} {
			res, err := s.doGuarded(t.Context(), m.key, func(ctx context.Context, tx dbtx.Tx) error {
				_, err := move(m.key, m.from, m.to)(ctx, tx)
				return err
			})
			assert.NoError(t, err, "inside of DoTx")
			assert.Equal(t, res.Replayed, i == 2, "replayed")
		}
		assert.Equal(t, w.queryNumber(t, "SELECT step FROM purchase"), 3, "how often it was moved inside of DoTx")
	})
}

// TestGuardFence: the row refuses a stale holder's write. The holder itself may write again, also
// where MySQL counts an equal value as no change.
func TestGuardFence(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		job := guard.Fence{Table: "job", ID: "id", Column: "fence"}
		write := func(fence retrysafe.Fence, note string) guardedCall {
			return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				if err := job.Check(ctx, tx, 1, fence); err != nil {
					return 0, err
				}
				place := map[bool]string{true: "$1", false: "?"}[w.d == dbtx.PostgreSQL]
				_, err := tx.Exec(ctx, "UPDATE job SET note = "+place+" WHERE id = 1", note)
				return outcomeOf(err)
			}
		}
		w.wantOut(t, guard.Applied, "the first holder", write(7, "old"))
		w.wantOut(t, guard.Applied, "the same again", write(7, "old too"))
		w.wantOut(t, guard.Applied, "a later holder", write(9, "new"))
		w.wantErr(t, guard.ErrFenced, "the first one, which was paused", write(7, "late"))
		w.wantErr(t, guard.ErrMissing, "no such row", func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return outcomeOf(job.Check(ctx, tx, 9, 7))
		})
		assert.Equal(t, w.queryText(t, "SELECT note FROM job"), "new", "what stands there")

		s := w.newShop(t)
		s.doCopies(t, "job", func(ctx context.Context, tx dbtx.Tx) error {
			_, err := write(9, "copies")(ctx, tx)
			return err
		})
		assert.Equal(t, w.queryText(t, "SELECT note FROM job"), "copies", "what stands there")

		if w.d == dbtx.SQLite {
			return // it has one writer anyway
		}
		// Until the transaction ends the row belongs to the holder: a later one waits.
		checked, later := make(chan struct{}), make(chan error, 1)
		go func() {
			<-checked
			_, err := w.runInTx(context.Background(), write(11, "later"))
			later <- err
		}()
		w.wantOut(t, guard.Applied, "a holder in its transaction", func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			out, err := write(9, "first")(ctx, tx)
			close(checked)
			w.awaitWaiter(t)
			assert.Equal(t, len(later), 0, "later holders that got past the row")
			return out, err
		})
		assert.NoError(t, waits.Soon(t, later, "the later holder"), "the later holder")
		assert.Equal(t, w.queryText(t, "SELECT note FROM job"), "later", "what stands there")
	})
}

// awaitWaiter waits until another transaction waits for the row.
func (w *guardDB) awaitWaiter(t *testing.T) {
	t.Helper()
	query := "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%\"job\"%'"
	if w.d == dbtx.MySQL {
		query = "SELECT count(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND INFO LIKE 'UPDATE `job`%'"
	}
	waits.Until(t.Context(), func() bool { return w.queryNumber(t, query) > 0 })
}
