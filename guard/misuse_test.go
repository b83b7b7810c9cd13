package guard_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/guard"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// Types that look like those of libraries: a value that can begin a transaction but not end one is
// not a transaction.
type (
	pool      struct{ dbtx.Conn }
	nested    struct{ pool }
	plainConn struct{ dbtx.Conn }
)

func (pool) BeginTx(context.Context, *sql.TxOptions) (*sql.Tx, error) { return nil, sql.ErrConnDone }
func (nested) Commit() error                                          { return nil }

// TestInTransaction: a guard refuses a pool or a connection, on which it would protect nothing.
func TestInTransaction(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tx   dbtx.Tx
		want bool
	}{
		{dbtx.SQL(&sql.DB{}, dbtx.SQLite), false},
		{dbtx.SQL(&sql.Conn{}, dbtx.SQLite), false},
		{dbtx.SQL(pool{}, dbtx.SQLite), false},
		{dbtx.SQL((*sql.Tx)(nil), dbtx.SQLite), false},
		{dbtx.SQL(&sql.Tx{}, dbtx.SQLite), true},
		{dbtx.SQL(nested{}, dbtx.SQLite), true},
		{dbtx.SQL(plainConn{}, dbtx.SQLite), true},
		{dbtx.Begun(&sql.Conn{}, dbtx.SQLite), true},
		{newFakeTx(dbtx.SQLite), true},
	} {
		assert.Equal(t, dbtx.InTransaction(c.tx), c.want, "%+v", c.tx)
	}
}

// TestMisuse: visible mistakes are refused before a statement is sent, and the error says what to
// do.
func TestMisuse(t *testing.T) {
	t.Parallel()
	set := guard.Set{"points": 1}
	account := func() *guard.Version {
		return &guard.Version{Table: "account", ID: "id", Column: "version", LastKey: "last_key"}
	}
	update := func(id any, by retrysafe.Key, set guard.Set) func(context.Context, dbtx.Tx) error {
		return func(ctx context.Context, tx dbtx.Tx) error {
			_, err := account().Update(ctx, tx, id, 3, by, set)
			return err
		}
	}
	of := func(v *guard.Version) func(context.Context, dbtx.Tx) error {
		return func(ctx context.Context, tx dbtx.Tx) error {
			_, err := v.Update(ctx, tx, 7, 3, by, set)
			return err
		}
	}
	insert := func(u *guard.Unique, row guard.Set) func(context.Context, dbtx.Tx) error {
		return func(ctx context.Context, tx dbtx.Tx) error {
			_, err := u.Insert(ctx, tx, by, row)
			return err
		}
	}
	vote := func() *guard.Unique {
		return &guard.Unique{Table: "vote", Columns: []string{"poll", "voter"}, Key: "by_key"}
	}
	put := func(at, first, update guard.Set) func(context.Context, dbtx.Tx) error {
		return func(ctx context.Context, tx dbtx.Tx) error {
			u := guard.Upsert{Table: "points", Columns: []string{"member"}}
			return u.Put(ctx, tx, at, first, update)
		}
	}
	var noID *int64
	zero, noText, noUUID := int64(0), "", [16]byte{}
	toZero := &zero
	var none *guard.Machine[status]
	for _, c := range []struct {
		run  func(context.Context, dbtx.Tx) error
		want string // in the error
	}{
		{update(nil, by, set), "the id is nil"},
		{update(0, by, set), "zero value of int"},
		{update("", by, set), "zero value of string"},
		{update([16]byte{}, by, set), "zero value of [16]uint8"},
		{update([]byte{}, by, set), "zero value of []uint8"},
		{update(noID, by, set), "zero value"},
		{update(sql.NullInt64{}, by, set), "zero value"},
		{update(sql.NullInt64{Int64: 3}, by, set), "zero value"},
		{update(sql.NullInt64{Valid: true}, by, set), "zero value"},
		{update(&sql.NullString{Valid: true}, by, set), "zero value"},
		{update(&zero, by, set), "zero value"},
		{update(&toZero, by, set), "zero value"},
		{update(&noText, by, set), "zero value"},
		{update(&noUUID, by, set), "zero value"},
		{update(7, by, nil), "the Set is empty"},
		{update(7, by, guard.Set{"ID": 1}), "the guard's own"},
		{update(7, by, guard.Set{"version": 1}), "the guard's own"},
		{update(7, by, guard.Set{"last_key": 1}), "the guard's own"},
		{update(7, by, guard.Set{"a": 1, "A": 1}), "stands twice"},
		{update(7, by, guard.Set{"a b": 1}), "no name of a column"},
		{update(7, by, guard.Set{"": 1}), "empty"},
		{update(7, by, guard.Set{"a": guard.Add("1")}), "give it a number"},
		{update(7, by, guard.Set{"a": guard.Add(nil)}), "give it a number"},
		{update(7, by, guard.Set{"a": guard.Add(math.NaN())}), "which is no amount"},
		{update(7, by, guard.Set{"a": guard.Add(float32(math.Inf(-1)))}), "which is no amount"},
		{update(7, retrysafe.Key{}, set), "the key of the request is not good"},
		{update(7, retrysafe.Key{Operation: "pay"}, set), "the id is empty"},
		{of(&guard.Version{ID: "id", Column: "version"}), "name of a table is empty"},
		{of(&guard.Version{Table: "a.b.c", ID: "id", Column: "version"}), "no name of a table"},
		{of(&guard.Version{Table: ".a", ID: "id", Column: "version"}), "name of a schema is empty"},
		{of(&guard.Version{Table: "a;b", ID: "id", Column: "version"}), "no name of a table"},
		{of(&guard.Version{Table: `a"b`, ID: "id", Column: "version"}), "no name of a table"},
		{of(&guard.Version{Table: "account", Column: "version"}), "name of a column is empty"},
		{of(&guard.Version{Table: "account", ID: "id"}), "set Column"},
		{of(&guard.Version{Table: "account", ID: "id", Column: "id"}), "two things"},
		{of(&guard.Version{Table: "account", ID: "id", Column: "v", LastKey: "V"}), "two things"},
		{of(&guard.Version{Table: strings.Repeat("a", 64), ID: "id", Column: "version"}), "64 bytes"},
		{func(ctx context.Context, tx dbtx.Tx) error {
			_, err := account().UpdateAt(ctx, tx, 7, time.Time{}, by, set)
			return err
		}, "zero time"},
		{insert(&guard.Unique{Table: "vote", Key: "by_key"}, nil), "names no column of a unique index"},
		{insert(&guard.Unique{Table: "vote", Columns: []string{"poll", "Poll"}, Key: "by_key"}, nil), "twice"},
		{insert(&guard.Unique{Table: "vote", Columns: []string{"poll"}}, guard.Set{"poll": 1}), "set Key"},
		{insert(vote(), guard.Set{"poll": 1}), "no value for voter"},
		{insert(vote(), guard.Set{"poll": 1, "voter": nil}), "NULL"},
		{insert(vote(), guard.Set{"poll": 1, "voter": sql.NullString{}}), "NULL"},
		{insert(vote(), guard.Set{"poll": 1, "voter": 2, "by_key": "x"}), "the guard's own"},
		{insert(vote(), guard.Set{"poll": 1, "voter": guard.Add(1)}), "nothing yet to add to"},
		{func(ctx context.Context, tx dbtx.Tx) error { _, err := vote().Try(ctx, tx, nil, nil); return err }, "both functions"},
		{func(ctx context.Context, tx dbtx.Tx) error {
			k := guard.PrimaryKey{Table: "orders", ID: "id", Key: "by_key"}
			_, err := k.Insert(ctx, tx, 7, by, guard.Set{"ID": 8})
			return err
		}, "the id stands in the row"},
		{func(ctx context.Context, tx dbtx.Tx) error {
			k := guard.PrimaryKey{Table: "orders", ID: "id", Key: "by_key"}
			_, err := k.Insert(ctx, tx, "", by, nil)
			return err
		}, "zero value"},
		{func(ctx context.Context, tx dbtx.Tx) error {
			return (&guard.Condition{Table: "account", ID: "id", Column: "amount"}).Subtract(ctx, tx, 7, 0)
		}, "above zero"},
		{func(ctx context.Context, tx dbtx.Tx) error {
			return (&guard.Condition{Table: "account", ID: "id", Column: "amount"}).Subtract(ctx, tx, 7, -5)
		}, "above zero"},
		{func(ctx context.Context, tx dbtx.Tx) error {
			return (&guard.Condition{Table: "account", ID: "id"}).Subtract(ctx, tx, 7, 5)
		}, "set Column"},
		{func(ctx context.Context, tx dbtx.Tx) error {
			return (&guard.Fence{Table: "job", ID: "id", Column: "fence"}).Check(ctx, tx, 7, 0)
		}, "the fence is zero"},
		{func(ctx context.Context, tx dbtx.Tx) error {
			return (&guard.Fence{Table: "job", ID: "id", Column: "fence"}).Check(ctx, tx, 7, math.MaxUint64)
		}, "too large"},
		{func(ctx context.Context, tx dbtx.Tx) error {
			return (&guard.RowLock{Table: "account", ID: "id"}).Lock(ctx, tx, 7, func() error { return nil })
		}, "set Columns"},
		{func(ctx context.Context, tx dbtx.Tx) error {
			return (&guard.RowLock{Table: "account", ID: "id", Columns: []string{"amount"}}).Lock(ctx, tx, 7, func() error { return nil })
		}, "0 places"},
		{func(ctx context.Context, tx dbtx.Tx) error {
			return (&guard.RowLock{Table: "account", ID: "id", Columns: []string{"amount"}}).Lock(ctx, tx, 7, nil, new(int))
		}, "no check"},
		{func(ctx context.Context, tx dbtx.Tx) error {
			_, err := none.Move(ctx, tx, 7, "a", "b", nil)
			return err
		}, "look at the error of NewMachine"},
		{func(ctx context.Context, tx dbtx.Tx) error {
			_, err := machine(t, moves(), nil).MoveBy(ctx, tx, 7, by, "placed", "paid", nil)
			return err
		}, "MachineOptions.LastKey"},
		{func(ctx context.Context, tx dbtx.Tx) error {
			_, err := machine(t, moves(), &guard.MachineOptions{LastKey: "k"}).Move(ctx, tx, 7, "placed", "paid", nil)
			return err
		}, "call MoveBy"},
		{func(ctx context.Context, tx dbtx.Tx) error {
			_, err := machine(t, moves(), nil).Move(ctx, tx, 7, "placed", "paid", guard.Set{"status": 1})
			return err
		}, "the guard's own"},
		{put(nil, nil, set), "a value for each"},
		{put(guard.Set{"member": 1, "other": 2}, nil, set), "for no other"},
		{put(guard.Set{"member": nil}, nil, set), "NULL"},
		{put(guard.Set{"member": 1}, guard.Set{"member": 2}, set), "the guard's own"},
		{put(guard.Set{"member": 1}, nil, guard.Set{"member": 2}), "the guard's own"},
		{put(guard.Set{"member": 1}, guard.Set{"total": guard.Add(1)}, set), "nothing yet"},
		{put(guard.Set{"member": 1}, nil, nil), "the update is empty"},
	} {
		for _, d := range dialects {
			tx := newFakeTx(d)
			err := c.run(t.Context(), tx)
			if !errors.Is(err, guard.ErrMisuse) {
				t.Errorf("%s: got %v, want a misuse", c.want, err)
				continue
			}
			assert.Contains(t, err.Error(), c.want, "the error")
			assert.Equal(t, tx.sent, nil, "statements")
		}
	}
	for name, tx := range map[string]dbtx.Tx{
		"the transaction is nil": nil, "no transaction": dbtx.SQL(&sql.DB{}, dbtx.SQLite), "dialect 9 is not known": newFakeTx(9),
	} {
		for _, c := range calls(t) {
			if strings.HasPrefix(c.name, "Fence") && tx == nil {
				continue // its statement is the caller's own
			}
			func() {
				defer func() {
					if r := recover(); r != nil && c.name != "Fence" {
						t.Errorf("%s: %v", c.name, r)
					}
				}()
				_, err := c.run(t.Context(), tx)
				assert.ErrorIs(t, err, guard.ErrMisuse, "%s, %s", c.name, name)
				assert.Contains(t, err.Error(), name, "%s", c.name)
			}()
		}
	}
}

// TestMachineDeclaration: states that could not be told apart later are refused in the declaration.
func TestMachineDeclaration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		moves map[status][]status
		want  string
	}{
		{nil, "no moves"},
		{map[status][]status{"a": {"b", "b"}}, "twice"},
		{map[status][]status{"a": {"A"}}, "one text"},
		{map[status][]status{"a": {"b"}, "b": {"a"}}, "again"},
		{map[status][]status{"a": {"a"}}, "again"},
		{map[status][]status{"a": {"b"}, "b": {"c"}, "c": {"d", "b"}}, "again"},
	} {
		_, err := guard.NewMachine("orders", "id", "status", c.moves, nil)
		assert.ErrorIs(t, err, guard.ErrMisuse, "%v", c.moves)
		assert.Contains(t, err.Error(), c.want, "%v", c.moves)
	}
	_, err := guard.NewMachine("orders", "id", "status", map[status][]status{"a": {"a"}}, &guard.MachineOptions{LastKey: "k"})
	assert.NoError(t, err, "a cycle with a key column")
	_, err = guard.NewMachine("orders", "id", "", moves(), nil)
	assert.ErrorIs(t, err, guard.ErrMisuse, "no column")
	_, err = guard.NewMachine("orders", "id;", "status", moves(), nil)
	assert.ErrorIs(t, err, guard.ErrMisuse, "no name")
	_, err = guard.NewMachine("orders", "id", "status", map[float64][]float64{1: {2}}, nil)
	assert.ErrorIs(t, err, guard.ErrMisuse, "states that cannot be compared")
	given := moves()
	m := machine(t, given, nil)
	given["placed"][0] = "done"
	_, err = m.Move(t.Context(), newFakeTx(dbtx.SQLite), 7, "placed", "done", nil)
	assert.ErrorIs(t, err, guard.ErrIllegal, "the map is copied")
}

// FuzzNames: an accepted name cannot escape its quotes.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"id", "a`b", `a"b`, "a.b", "a b", "a;", "ä", "\x00", "1a", "_", "a\\", "\xff", "a'b", "--"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, d := range dialects {
			v := guard.Version{Table: name, ID: "id", Column: "version"}
			tx := newFakeTx(d)
			_, err := v.Update(t.Context(), tx, 7, 3, by, guard.Set{"a": 1})
			if err != nil {
				assert.ErrorIs(t, err, guard.ErrMisuse, "%q", name)
				continue
			}
			assert.True(t, !strings.ContainsAny(name, "`\"';\\ \t\r\n\x00-/*()[]") && len(name) <= 127, "%q is a name", name)
			quoted := "`" + strings.ReplaceAll(name, ".", "`.`") + "`"
			if d == dbtx.PostgreSQL {
				quoted = strings.ReplaceAll(quoted, "`", `"`)
			}
			assert.True(t, strings.HasPrefix(tx.sent[0], fmt.Sprint("UPDATE ", quoted, " SET ")), "%q", tx.sent)
		}
	})
}

// FuzzIsDecimal: a text that counts as a number parses as one as a whole.
func FuzzIsDecimal(f *testing.F) {
	for _, s := range []string{"1", "-1.50", "", "-", ".", "1.", ".5", " 1", "1 ", "1e5", "0x1", "1_0", "--1", "+1", "1.2.3", "\xd9\xa1", "1\x00", "NaN"} {
		f.Add(s)
	}
	plain := regexp.MustCompile(`\A-?[0-9]+(\.[0-9]+)?\z`)
	f.Fuzz(func(t *testing.T, s string) {
		assert.Equal(t, guard.IsDecimal(s), plain.MatchString(s), "%q", s)
	})
}
