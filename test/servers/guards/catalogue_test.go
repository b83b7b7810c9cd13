package guards_test

import (
	"context"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/guard"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
)

// TestGuardIndex: a guard needs a unique index on all rows and on exactly its columns. If there is
// none, the error has the statement that creates it, and that statement works.
func TestGuardIndex(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		insert := func(table string, columns ...string) guardedCall {
			return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				u := guard.Unique{Table: table, Columns: columns, Key: "k"}
				row := guard.Set{}
				for _, c := range columns {
					row[c] = 1
				}
				return u.Insert(ctx, tx, byKey("a"), row)
			}
		}
		update := func(table, id string) guardedCall {
			return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				c := guard.Condition{Table: table, ID: id, Column: "n"}
				return outcomeOf(c.Subtract(ctx, tx, 1, 1))
			}
		}
		sqltest.Exec(t, w.db, "CREATE TABLE a (x INT NOT NULL, Y INT NOT NULL, z VARCHAR(20), k VARCHAR(64), n INT)")
		_, err := w.runInTx(t.Context(), insert("a", "x", w.columnCase("Y")))
		assert.ErrorIs(t, err, guard.ErrMisuse, "without an index")
		_, create, _ := strings.Cut(err.Error(), "run: ")
		for name, other := range map[string]string{
			"not unique": "CREATE INDEX i1 ON a (x, y)", "more columns": "CREATE UNIQUE INDEX i2 ON a (x, y, n)", "one column": "CREATE UNIQUE INDEX i3 ON a (n)",
			"a part of the rows, or of the values": map[dbtx.Dialect]string{
				dbtx.PostgreSQL: "CREATE UNIQUE INDEX i4 ON a (x, y) WHERE n > 0", dbtx.SQLite: "CREATE UNIQUE INDEX i4 ON a (x, y) WHERE n > 0",
				dbtx.MySQL: "CREATE UNIQUE INDEX i4 ON a (z(3))",
			}[w.d],
			"an expression, or late": map[dbtx.Dialect]string{
				dbtx.PostgreSQL: "ALTER TABLE a ADD CONSTRAINT i5 UNIQUE (x, y) DEFERRABLE INITIALLY DEFERRED", dbtx.SQLite: "CREATE UNIQUE INDEX i5 ON a (x, y + 1)",
				dbtx.MySQL: "CREATE INDEX i5 ON a (y, x)",
			}[w.d],
		} {
			sqltest.Exec(t, w.db, other)
			w.wantErr(t, guard.ErrMisuse, name, insert("a", "x", w.columnCase("Y")))
		}
		w.wantErr(t, guard.ErrMisuse, "an update by a column that is not unique", update("a", "x"))
		sqltest.Exec(t, w.db, create)
		for _, want := range []guard.Outcome{guard.Applied, guard.AlreadyApplied} {
			// On PostgreSQL it exists beside a late constraint, which takes a savepoint.
			w.wantOut(t, want, "with the index that the error has named", insert("a", w.columnCase("y"), "x"))
		}

		for what, c := range map[string]struct{ make, table, id string }{
			"a primary key":             {"CREATE TABLE b (id INTEGER PRIMARY KEY, n INT, k VARCHAR(64))", "b", "id"},
			"a primary key of two":      {"CREATE TABLE c (a INT NOT NULL, id INT NOT NULL, n INT, k VARCHAR(64), PRIMARY KEY (a, id), UNIQUE (id))", "c", "id"},
			"a constraint of a column":  {"CREATE TABLE d (id INT UNIQUE, n INT, k VARCHAR(64))", "d", "id"},
			"a name in another case":    {"CREATE TABLE e (" + w.columnCase("Id") + " INT PRIMARY KEY, n INT)", "e", w.columnCase("ID")},
			"a name that is reserved":   {"CREATE TABLE " + w.quoteName("order") + " (" + w.quoteName("select") + " INT PRIMARY KEY, n INT)", "order", "select"},
			"a name with other letters": {"CREATE TABLE " + w.quoteName("köpfe") + " (" + w.quoteName("größe") + " INT PRIMARY KEY, n INT)", "köpfe", "größe"},
		} {
			sqltest.Exec(t, w.db, c.make)
			w.wantErr(t, guard.ErrMissing, what, update(c.table, c.id))
		}
		w.wantErr(t, guard.ErrMisuse, "no table", update("nowhere", "id"))
		w.wantErr(t, guard.ErrMisuse, "no schema", update("nowhere.b", "id"))
		w.wantErr(t, guard.ErrMisuse, "no column", update("b", "nothing"))
		w.wantErr(t, guard.ErrMissing, "a schema", update(w.schema(t)+".b", "id"))

		sqltest.Exec(t, w.db, "CREATE TABLE f (id INT PRIMARY KEY, k VARCHAR(20), version INT, n INT)")
		narrow := func(key string) guardedCall {
			return func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				v := guard.Version{Table: "f", ID: "id", Column: "version", LastKey: key}
				return v.Update(ctx, tx, 1, 1, byKey("a"), guard.Set{"n": 1})
			}
		}
		w.wantErr(t, guard.ErrMisuse, "no column for keys", narrow("nothing"))
		if w.d != dbtx.SQLite { // where a column limits the length of a text
			w.wantErr(t, guard.ErrMisuse, "a column that is too short for digests", narrow("k"))
			w.wantErr(t, guard.ErrMisuse, "a column of numbers for keys", narrow("n"))
		}
		if w.d == dbtx.PostgreSQL {
			sqltest.Exec(t, w.db, "CREATE DOMAIN digest AS TEXT CHECK (VALUE <> '')")
			sqltest.Exec(t, w.db, "CREATE DOMAIN narrow AS VARCHAR(20)")
			sqltest.Exec(t, w.db, "CREATE TABLE r (x INT PRIMARY KEY, k digest, short narrow, span INT4RANGE, EXCLUDE USING gist (span WITH &&) DEFERRABLE)")
			for _, want := range []guard.Outcome{guard.Applied, guard.AlreadyApplied} {
				w.wantOut(t, want, "a key column of a domain, beside a late exclusion constraint", insert("r", "x"))
			}
			w.wantErr(t, guard.ErrMisuse, "a domain that is too short for digests", func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				u := guard.Unique{Table: "r", Columns: []string{"x"}, Key: "short"}
				return u.Insert(ctx, tx, byKey("a"), guard.Set{"x": 1})
			})
			// A trigger writes to the child what was written to the parent. So no row of the parent
			// was written, but a row is there.
			sqltest.Exec(t, w.db, "CREATE TABLE p (x INT PRIMARY KEY, k VARCHAR(64))")
			sqltest.Exec(t, w.db, "CREATE TABLE p_child () INHERITS (p)")
			sqltest.Exec(t, w.db, "CREATE FUNCTION redirect() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO p_child VALUES (NEW.*); RETURN NULL; END'")
			sqltest.Exec(t, w.db, "CREATE TRIGGER redirect BEFORE INSERT ON p FOR EACH ROW EXECUTE FUNCTION redirect()")
			w.wantErr(t, guard.ErrMisuse, "a table from which another one inherits", insert("p", "x"))
			sqltest.Exec(t, w.db, "CREATE TABLE q (x INT PRIMARY KEY, k VARCHAR(64)) PARTITION BY RANGE (x)")
			sqltest.Exec(t, w.db, "CREATE TABLE q_part PARTITION OF q FOR VALUES FROM (0) TO (9)")
			for _, table := range []string{"q", "q_part"} {
				w.wantOut(t, guard.Applied, "a partitioned table, and a part", func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
					u := guard.Unique{Table: table, Columns: []string{"x"}, Key: "k"}
					return u.Insert(ctx, tx, byKey("a"), guard.Set{"x": len(table)})
				})
			}
		}
		if w.d == dbtx.MySQL {
			w.wantErr(t, guard.ErrMisuse, "an index on the beginnings of values", update("a", "z"))
			sqltest.Exec(t, w.db, "CREATE TABLE g (id INT PRIMARY KEY, n INT) ENGINE=MyISAM")
			w.wantErr(t, guard.ErrMisuse, "a table without transactions", update("g", "id"))
			sqltest.Exec(t, w.db, "CREATE TABLE h (id VARCHAR(20) PRIMARY KEY, n INT)")
			sqltest.Exec(t, w.db, "INSERT INTO h VALUES ('1', 5), ('01', 5)")
			w.wantErr(t, guard.ErrMisuse, "an id that is compared as a number, and meets two texts", update("h", "id"))
			assert.Equal(t, w.queryNumber(t, "SELECT sum(n) FROM h"), 10, "what is there")
		}
	})
}

// columnCase returns a name in another case, if the database ignores case.
func (w *guardDB) columnCase(name string) string {
	if w.d == dbtx.PostgreSQL {
		return strings.ToLower(name)
	}
	return name
}

func (w *guardDB) quoteName(name string) string {
	if w.d == dbtx.PostgreSQL {
		return `"` + name + `"`
	}
	return "`" + name + "`"
}

func (w *guardDB) schema(t *testing.T) string {
	t.Helper()
	switch w.d {
	case dbtx.PostgreSQL:
		return w.queryText(t, "SELECT current_schema()")
	case dbtx.MySQL:
		return w.queryText(t, "SELECT DATABASE()")
	}
	return "main"
}

// counting counts the statements of a transaction.
type counting struct {
	dbtx.Tx
	n int
}

func (c *counting) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	c.n++
	return c.Tx.Exec(ctx, query, args...)
}

func (c *counting) QueryRow(ctx context.Context, query string, args []any, dest ...any) error {
	c.n++
	return c.Tx.QueryRow(ctx, query, args, dest...)
}

// TestGuardStatements: the statements that a guard sends on each database after its first use,
// beyond those that the caller would send anyway.
func TestGuardStatements(t *testing.T) {
	t.Parallel()
	eachGuardDB(t, func(t *testing.T, w *guardDB) {
		t.Helper()
		fence := guard.Fence{Table: "job", ID: "id", Column: "fence"}
		condition := guard.Condition{Table: "account", ID: "id", Column: "amount"}
		lock := guard.RowLock{Table: "account", ID: "id", Columns: []string{"amount"}}
		upsert := guard.Upsert{Table: "points", Columns: []string{"member"}}
		put := func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return outcomeOf(upsert.Put(ctx, tx, guard.Set{"member": "ann"}, guard.Set{"total": 1}, guard.Set{"total": guard.Add(1)}))
		}
		count := func(want int, what string, out guard.Outcome, f guardedCall) {
			t.Helper()
			n := 0
			w.wantOut(t, out, what, func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				c := &counting{Tx: tx}
				out, err := f(ctx, c)
				n = c.n
				return out, err
			})
			assert.Equal(t, n, want, "statements of %s", what)
		}
		for name, op := range retryableGuards(t) {
			w.wantErr(t, errNotCommitted, "the first use, which asks the catalogue", func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				_, err := op.run(ctx, tx)
				assert.NoError(t, err, "the first use")
				return 0, errNotCommitted
			})
			count(1, name, guard.Applied, op.run)
			count(2, name+", a repeat", guard.AlreadyApplied, op.run)
		}
		for name, c := range map[string]struct {
			want int
			run  guardedCall
		}{
			"Condition": {1, func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				return outcomeOf(condition.Subtract(ctx, tx, 1, 1))
			}},
			"RowLock": {2, func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				var amount int64
				return outcomeOf(lock.Lock(ctx, tx, 1, func() error { return nil }, &amount))
			}},
			"Fence": {1, func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				return outcomeOf(fence.Check(ctx, tx, 1, 7))
			}},
			"Upsert": {1, put},
		} {
			for _, fence := range []retrysafe.Fence{1, 2} {
				// Twice, because the first call checks the catalogue. MySQL counts an equal fence
				// as no change.
				sqltest.Exec(t, w.db, "UPDATE job SET fence = "+map[retrysafe.Fence]string{1: "1", 2: "2"}[fence])
				if fence == 1 {
					w.wantOut(t, guard.Applied, name, c.run)
				}
			}
			count(c.want, name, guard.Applied, c.run)
		}
	})
}
