package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/guard"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// Errors in the form of drivers' errors.
type (
	postgresError struct{ Code, Message, ConstraintName, TableName string }
	pqError       struct{ Code, Constraint, Table string }
	mysqlError    struct {
		Number  uint16
		Message string
	}
	sqliteError struct {
		code int
		text string
	}
	otherSQLite struct {
		Code         int
		ExtendedCode int
		text         string
	}
)

func (e *postgresError) Error() string    { return e.Message }
func (e *postgresError) SQLState() string { return e.Code }
func (e *pqError) Error() string          { return "pq: duplicate key" }
func (e *pqError) SQLState() string       { return e.Code }
func (e *mysqlError) Error() string       { return fmt.Sprintf("Error %d: %s", e.Number, e.Message) }
func (e *sqliteError) Error() string      { return e.text }
func (e *sqliteError) Code() int          { return e.code }
func (e otherSQLite) Error() string       { return e.text }

// TestDuplicateKey: DuplicateKey recognizes the errors of all drivers, also wrapped and joined, and
// says which index was hit.
func TestDuplicateKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want guard.Duplicate
	}{
		{&postgresError{Code: "23505", ConstraintName: "vote_key", TableName: "vote"}, guard.Duplicate{Table: "vote", Index: "vote_key"}},
		{&pqError{"23505", "vote_key", "vote"}, guard.Duplicate{Table: "vote", Index: "vote_key"}},
		{&mysqlError{1062, "Duplicate entry '1-ann' for key 'vote_key'"}, guard.Duplicate{Index: "vote_key"}},
		{&mysqlError{1062, "Duplicate entry '1-ann' for key 'vote.vote_key'"}, guard.Duplicate{Table: "vote", Index: "vote_key"}},
		{&mysqlError{1062, "Duplicate entry 'it's for key 'PRIMARY'' for key 'vote_key'"}, guard.Duplicate{Index: "vote_key"}},
		{&mysqlError{1062, "Doppelter Eintrag '1' für Schlüssel 'PRIMARY'"}, guard.Duplicate{Index: "PRIMARY"}},
		{&mysqlError{1586, "Duplicate entry '1' for key 'a'"}, guard.Duplicate{Index: "a"}},
		{&mysqlError{1062, "no words"}, guard.Duplicate{}},
		{&sqliteError{2067, "constraint failed: UNIQUE constraint failed: vote.poll, vote.voter (2067)"}, guard.Duplicate{Table: "vote", Columns: []string{"poll", "voter"}}},
		{&sqliteError{1555, "UNIQUE constraint failed: orders.id"}, guard.Duplicate{Table: "orders", Columns: []string{"id"}}},
		{&sqliteError{2067, "constraint failed: UNIQUE constraint failed: index 'lower_name' (2067)"}, guard.Duplicate{Index: "lower_name"}},
		{otherSQLite{19, 2067, "UNIQUE constraint failed: vote.poll"}, guard.Duplicate{Table: "vote", Columns: []string{"poll"}}},
		{&sqliteError{19, "UNIQUE constraint failed: vote.poll"}, guard.Duplicate{Table: "vote", Columns: []string{"poll"}}},
		{errors.New("sqlite3: constraint failed: UNIQUE constraint failed: vote.poll"), guard.Duplicate{Table: "vote", Columns: []string{"poll"}}},
	} {
		for _, err := range []error{c.err, fmt.Errorf("create: %w", c.err), errors.Join(errors.New("x"), c.err)} {
			got, ok := guard.DuplicateKey(err)
			assert.True(t, ok, "%v is a duplicate key", err)
			assert.Equal(t, got, c.want, "%v", err)
		}
	}
	for _, err := range []error{
		nil, errors.New("x"), &postgresError{Code: "23503"}, &mysqlError{1213, "Deadlock"}, &sqliteError{787, "FOREIGN KEY constraint failed"}, &sqliteError{5, "busy"},
		&postgresError{Code: "22000", Message: "UNIQUE constraint failed: a.b"},
	} {
		_, ok := guard.DuplicateKey(err)
		assert.True(t, !ok, "%v is none", err)
	}
}

// FuzzDuplicateKey: whatever the values of an entry contain, the index after them is found.
func FuzzDuplicateKey(f *testing.F) {
	f.Add("1-ann", "vote_key")
	f.Add("' for key 'other'", "PRIMARY")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, entry, index string) {
		got, ok := guard.DuplicateKey(&mysqlError{1062, "Duplicate entry '" + entry + "' for key '" + index + "'"})
		assert.True(t, ok, "it is one")
		if !strings.ContainsAny(index, "'.") {
			assert.Equal(t, got.Index, index, "index")
		}
		_, _ = guard.DuplicateKey(errors.New(entry))
		_ = guard.MySQLIndex(entry, index)
		got, ok = guard.DuplicateKey(&sqliteError{2067, "UNIQUE constraint failed: " + entry})
		assert.True(t, ok, "it is one: %+v", got)
	})
}

// TestPassed: a row that has moved on has made the move if no other path leads to its state.
func TestPassed(t *testing.T) {
	t.Parallel()
	m := map[string][]string{"placed": {"paid", "cancelled"}, "paid": {"sent", "cancelled"}, "sent": {"done"}}
	for _, c := range []struct {
		from, to, now string
		want          bool
	}{
		{"placed", "paid", "paid", true},
		{"placed", "paid", "sent", true},
		{"placed", "paid", "done", true},
		{"placed", "paid", "cancelled", false},      // it may have been cancelled from placed
		{"placed", "cancelled", "cancelled", false}, // it may have been paid before
		{"paid", "cancelled", "cancelled", false},   // it may have been cancelled from placed
		{"paid", "sent", "sent", true},
		{"paid", "sent", "done", true},
		{"placed", "cancelled", "paid", false},
		{"paid", "sent", "placed", false},
		{"paid", "sent", "nowhere", false},
	} {
		assert.Equal(t, guard.Passed(m, c.from, c.to, c.now), c.want, "%s to %s, now %s", c.from, c.to, c.now)
	}
}

// TestOutcomes: the result for a row that was not changed.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	none := result{n: 0}
	byName := map[string]call{}
	for _, c := range calls(t) {
		byName[c.name] = c
	}
	noKey := &guard.Version{Table: "account", ID: "id", Column: "version"}
	byName["Version without a key"] = call{run: func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
		return noKey.Update(ctx, tx, 7, 3, retrysafe.Key{}, guard.Set{"points": 1})
	}}
	row := func(v ...any) []answer { return []answer{{values: v}} }
	for _, c := range []struct {
		call    string
		answers []answer
		want    error // nil means AlreadyApplied
		text    string
	}{
		{"Version", row(int64(1)), nil, ""},
		{"Version", row(int64(0)), guard.ErrStale, "read it again"},
		{"Version", row(int64(2)), guard.ErrMisuse, "is NULL"},
		{"Version", nil, guard.ErrMissing, "no row with this id"},
		{"Version without a key", row(int64(0)), guard.ErrStale, "read it again"},
		{"Machine.Move", row("paid", int64(0)), nil, ""},
		{"Machine.Move", row("PAID  ", int64(0)), nil, ""},
		{"Machine.Move", row("done", int64(0)), nil, ""},
		{"Machine.Move", row("cancelled", int64(0)), guard.ErrIllegal, "in cancelled"},
		{"Machine.Move", row("lost", int64(0)), guard.ErrIllegal, "in lost"},
		{"Machine.Move", row(nil, int64(0)), guard.ErrMisuse, "NULL"},
		{"Machine.Move", nil, guard.ErrMissing, "no row"},
		{"Machine.MoveBy", row("on", int64(1)), nil, ""},
		{"Machine.MoveBy", row("off", int64(0)), guard.ErrStale, "another request"},
		{"Machine.MoveBy", row("broken", int64(0)), guard.ErrIllegal, "in broken"},
		{"Condition", row(int64(1)), guard.ErrRefused, "less than"},
		{"Condition", nil, guard.ErrMissing, "no row"},
		{"Unique.Insert", row(int64(1)), nil, ""},
		{"Unique.Insert", row(int64(0)), guard.ErrConflict, "not of this request"},
		{"PrimaryKey", row(int64(1)), nil, ""},
	} {
		for _, d := range dialects {
			tx := newFakeTx(d)
			tx.results, tx.answers = []result{none, none}, c.answers
			if d == dbtx.MySQL && c.call == "Unique.Insert" || c.call == "PrimaryKey" {
				tx.results[0].err = &mysqlError{1062, "Duplicate entry 'x' for key 'the_index'"}
				if d != dbtx.MySQL {
					tx.results[0].err = nil
				}
			}
			out, err := byName[c.call].run(t.Context(), tx)
			if c.want == nil {
				assert.NoError(t, err, "%s on %s", c.call, d)
				assert.Equal(t, out, guard.AlreadyApplied, "%s on %s", c.call, d)
			} else {
				assert.ErrorIs(t, err, c.want, "%s on %s", c.call, d)
				assert.Contains(t, err.Error(), c.text, "%s on %s", c.call, d)
			}
			assert.Equal(t, strings.Contains(tx.sent[len(tx.sent)-1], "LOCK IN SHARE MODE"), d == dbtx.MySQL, "a current read on MySQL: %q", tx.sent)
		}
	}
	tx := newFakeTx(dbtx.MySQL)
	tx.results = []result{{n: 2}}
	_, err := byName["Version"].run(t.Context(), tx)
	assert.ErrorIs(t, err, guard.ErrMisuse, "an update of two rows")
}

// TestErrorsOfTheDatabase: errors say what to do, DoTx can still recognize them, and they do not
// contain the row's values from the driver's text.
func TestErrorsOfTheDatabase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		kind error
		text string
	}{
		{&postgresError{Code: "40001", Message: "m"}, nil, "RetryWork"},
		{&postgresError{Code: "40P01", Message: "m"}, nil, "RetryWork"},
		{&postgresError{Code: "55P03", Message: "m"}, guard.ErrLocked, "RetryWork"},
		{&postgresError{Code: "25P02", Message: "m"}, nil, "earlier statement"},
		{&mysqlError{1213, "m"}, nil, "RetryWork"},
		{&mysqlError{1205, "m"}, guard.ErrLocked, "RetryWork"},
		{&mysqlError{3572, "m"}, guard.ErrLocked, "RetryWork"},
		{&sqliteError{517, "m"}, guard.ErrLocked, "BEGIN IMMEDIATE"},
		{&sqliteError{5, "m"}, guard.ErrLocked, "busy_timeout"},
		{context.Canceled, nil, "the call has ended"},
		{errors.New("the line is cut"), nil, "the line is cut"},
	} {
		for _, run := range calls(t) {
			if run.name == "Unique.Try" || run.name == "Fence" || strings.HasPrefix(run.name, "RowLock") || run.name == "Upsert" {
				continue // they have statements of the caller's own, or return results themselves
			}
			tx := newFakeTx(dbtx.PostgreSQL)
			tx.results = []result{{err: c.err}}
			_, err := run.run(t.Context(), tx)
			assert.ErrorIs(t, err, c.err, "%s", run.name)
			assert.Contains(t, err.Error(), c.text, "%s", run.name)
			assert.True(t, c.kind == nil || errors.Is(err, c.kind), "%s: %v", run.name, err)
		}
	}
	tx := newFakeTx(dbtx.PostgreSQL)
	tx.results = []result{{err: &postgresError{Code: "23505", Message: "(secret) exists", ConstraintName: "other"}}}
	tx.d = dbtx.MySQL
	unique := guard.Unique{Table: "vote", Columns: []string{"poll"}, Key: "k"}
	_, err := unique.Insert(t.Context(), tx, by, guard.Set{"poll": 1})
	assert.ErrorIs(t, err, guard.ErrConflict, "another index")
	assert.Contains(t, err.Error(), "the index other", "another index")
	assert.True(t, !strings.Contains(err.Error(), "secret"), "the error shows no value: %v", err)
}

// TestTry: an INSERT of the caller's own. same is called whichever index was hit, because a
// duplicate request conflicts with its row in every index.
func TestTry(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		for _, c := range []struct {
			err  error
			same bool
			want error
		}{
			{nil, false, nil},
			{&mysqlError{1062, "Duplicate entry 'x' for key 'the_index'"}, true, nil},
			{&mysqlError{1062, "Duplicate entry 'x' for key 'vote.the_index'"}, true, nil},
			{&mysqlError{1062, "Duplicate entry 'x' for key 'points.the_index'"}, false, guard.ErrConflict},
			{&mysqlError{1062, "Duplicate entry 'x' for key 'the_index'"}, false, guard.ErrConflict},
			{&mysqlError{1062, "Duplicate entry 'x' for key 'other'"}, true, nil},
			{&postgresError{Code: "23505", ConstraintName: "the_index"}, true, nil},
			{&sqliteError{2067, "UNIQUE constraint failed: vote.voter, vote.poll"}, true, nil},
			{&sqliteError{2067, "UNIQUE constraint failed: vote.poll"}, false, guard.ErrConflict},
			{&sqliteError{2067, "UNIQUE constraint failed: points.voter, points.poll"}, true, nil},
			{errors.New("duplicated key not allowed"), true, guard.ErrMisuse},
			{context.Canceled, true, context.Canceled},
		} {
			vote := guard.Unique{Table: "vote", Columns: []string{"poll", "voter"}, Key: "by_key"}
			tx := newFakeTx(d)
			out, err := vote.Try(t.Context(), tx, func(context.Context) error { return c.err }, func(context.Context) (bool, error) { return c.same, nil })
			assert.True(t, errors.Is(err, c.want) || err == nil && c.want == nil, "%v: %v", c.err, err)
			if c.want == nil {
				assert.Equal(t, out == guard.AlreadyApplied, c.err != nil, "outcome of %v", c.err)
			}
			assert.Contains(t, strings.Join(tx.sent, "|"), "RELEASE SAVEPOINT", "statements")
			assert.Equal(t, strings.Contains(strings.Join(tx.sent, "|"), "ROLLBACK TO"), c.err != nil, "whether it was undone: %q", tx.sent)
		}
		vote := guard.Unique{Table: "vote", Columns: []string{"poll", "voter"}, Key: "by_key"}
		tx := newFakeTx(d)
		asked := errors.New("no answer")
		_, err := vote.Try(t.Context(), tx, func(context.Context) error { return &postgresError{Code: "23505", ConstraintName: "the_index"} },
			func(context.Context) (bool, error) { return false, asked })
		assert.ErrorIs(t, err, asked, "same fails")
		tx = newFakeTx(d)
		gone := errors.New("no such savepoint")
		tx.results = []result{{}, {err: gone}, {err: gone}}
		_, err = vote.Try(t.Context(), tx, func(context.Context) error { return &mysqlError{1062, "Duplicate entry 'x' for key 'the_index'"} },
			func(context.Context) (bool, error) { return true, nil })
		assert.ErrorIs(t, err, gone, "what could not be undone is no repeat")
	}
}

// TestDigestIsFrozen: new versions must recognize rows that old versions wrote.
func TestDigestIsFrozen(t *testing.T) {
	t.Parallel()
	got, err := guard.Digest(retrysafe.Key{Tenant: "ann", Operation: "pay", ID: "8e03978e/ü"})
	assert.NoError(t, err, "Digest")
	assert.Equal(t, got, "190baeabe4853d55dd6d010877bfe52aafd36554416351f86c4a2b77272c998b", "digest")
	other, err := guard.Digest(retrysafe.Key{Tenant: "an", Operation: "npay", ID: "8e03978e/ü"})
	assert.NoError(t, err, "Digest")
	assert.NotEqual(t, other, got, "another key")
	by := retrysafe.Key{Tenant: "ann", Operation: "pay", ID: "8e03978e/ü"}
	version := &guard.Version{Table: "account", ID: "id", Column: "Version", LastKey: "last_key"}
	tx := newFakeTx(dbtx.PostgreSQL)
	_, err = version.Update(t.Context(), tx, 7, 3, by, guard.Set{"note": "x"})
	assert.NoError(t, err, "Update")
	// "retrysafe guard 1\nversion version\nann/pay/8e03978e%2F%C3%BC"
	assert.Equal(t, tx.digests, []string{"3defea80e090bbb41d4c3f8306bbfb677c35fb894bc1044a083a3eecabd788c9", "3defea80e090bbb41d4c3f8306bbfb677c35fb894bc1044a083a3eecabd788c9"}, "digests of Version")
	m, err := guard.NewMachine("lamp", "id", "Status", map[string][]string{"on": {"off \"é"}, "off \"é": {"on"}}, &guard.MachineOptions{LastKey: "last_key"})
	assert.NoError(t, err, "NewMachine")
	tx = newFakeTx(dbtx.PostgreSQL)
	_, err = m.MoveBy(t.Context(), tx, 7, by, "on", "off \"é", nil)
	assert.NoError(t, err, "MoveBy")
	// "retrysafe guard 1\nmove status \"on\" \"off \\\"é\"\nann/pay/8e03978e%2F%C3%BC"
	assert.Equal(t, tx.digests, []string{"10c3fff15ca5aeecbcbe4e0a53c7aca54c6168e74a79bae090c3f3fcf0c8c24a", "10c3fff15ca5aeecbcbe4e0a53c7aca54c6168e74a79bae090c3f3fcf0c8c24a"}, "digests of Machine")
	_, err = guard.Digest(retrysafe.Key{})
	assert.ErrorIs(t, err, guard.ErrMisuse, "no key")
	assert.ErrorIs(t, err, retrysafe.ErrInvalidKey, "no key")
}
