package guards_test

import (
	"context"
	"testing"

	"github.com/retrysafe/retrysafe/guard"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// TestGuardKeyOfSeveralUses: a request with one key may move a row twice, and change it through
// another guard that stores keys in the same column. No guard mistakes another's key for its own
// duplicate.
func TestGuardKeyOfSeveralUses(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		orders, err := guard.NewMachine("purchase", "id", "status", map[string][]string{"placed": {"paid"}, "paid": {"sent"}}, &guard.MachineOptions{LastKey: "last_key"})
		assert.NoError(t, err, "a machine")
		edit := &guard.Version{Table: "purchase", ID: "id", Column: "step", LastKey: "last_key"}
		move := func(from, to string) guardedCall {
			return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				return orders.MoveBy(ctx, tx, "o1", byKey("a"), from, to, nil)
			}
		}
		note := func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return edit.Update(ctx, tx, "o1", 1, byKey("a"), guard.Set{"note": "by card"})
		}
		w.wantOut(t, guard.Applied, "the first move", move("placed", "paid"))
		w.wantOut(t, guard.AlreadyApplied, "its repeat", move("placed", "paid"))
		w.wantOut(t, guard.Applied, "another guard", note)
		w.wantOut(t, guard.AlreadyApplied, "its repeat", note)
		w.wantOut(t, guard.Applied, "the second move", move("paid", "sent"))
		w.wantOut(t, guard.AlreadyApplied, "its repeat", move("paid", "sent"))
		w.wantErr(t, guard.ErrIllegal, "a late repeat of the first", move("placed", "paid"))
		assert.Equal(t, w.queryText(t, "SELECT status FROM purchase WHERE id = 'o1'"), "sent", "the state")
		assert.Equal(t, w.queryText(t, "SELECT note FROM purchase WHERE id = 'o1'"), "by card", "the note")
	})
}

// TestGuardVersionNamedAnew: what the row cannot know. A retry that names a newer version, after
// another writer, is applied again. Inside DoTx it is not.
func TestGuardVersionNamedAnew(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		account := guard.Version{Table: "account", ID: "id", Column: "version", LastKey: "last_key"}
		add := func(id int, key string, version int64) guardedCall {
			return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				return account.Update(ctx, tx, id, version, byKey(key), guard.Set{"points": guard.Add(20)})
			}
		}
		w.wantOut(t, guard.Applied, "a request", add(1, "a", 1))
		w.wantOut(t, guard.Applied, "another one", add(1, "b", 2))
		w.wantOut(t, guard.Applied, "a retry of the first that has read the row again", add(1, "a", 3))
		assert.Equal(t, w.queryNumber(t, "SELECT points FROM account WHERE id = 1"), 60, "points")
		s := w.newShop(t)
		for i, c := range []struct {
			key     string
			version int64
		}{{"a", 1}, {"b", 2}, {"a", 3}} {
			res, err := s.doGuarded(t.Context(), c.key, func(ctx context.Context, tx dbtx.Tx) error {
				_, err := add(2, c.key, c.version)(ctx, tx)
				return err
			})
			assert.NoError(t, err, "inside of DoTx")
			assert.Equal(t, res.Replayed, i == 2, "whether it gets its first answer")
		}
		assert.Equal(t, w.queryNumber(t, "SELECT points FROM account WHERE id = 2"), 40, "points, inside of DoTx")
	})
}

// TestGuardMachineOtherWays: a row that may have reached its state by another path is not a
// duplicate.
func TestGuardMachineOtherWays(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		orders, err := guard.NewMachine("purchase", "id", "status", map[string][]string{"placed": {"paid", "cancelled"}, "paid": {"cancelled"}}, nil)
		assert.NoError(t, err, "a machine")
		move := func(from, to string) guardedCall {
			return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				return orders.Move(ctx, tx, "o1", from, to, nil)
			}
		}
		w.wantOut(t, guard.Applied, "cancelled before it was paid", move("placed", "cancelled"))
		w.wantErr(t, guard.ErrStale, "to cancel what was paid", move("paid", "cancelled"))
	})
}
