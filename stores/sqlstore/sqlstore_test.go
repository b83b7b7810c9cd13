package sqlstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
)

// noDriver opens nothing: New does not touch the database.
type noDriver struct{ driver.Connector }

func (noDriver) Connect(context.Context) (driver.Conn, error) {
	return nil, errors.New("there is nothing to connect to")
}
func (noDriver) Driver() driver.Driver { return nil }

func unopenedDB(t *testing.T) *sql.DB {
	t.Helper()
	db := sql.OpenDB(noDriver{})
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestNewChecksItsArguments(t *testing.T) {
	t.Parallel()
	db := unopenedDB(t)
	for _, o := range []*sqlstore.Options{nil, {}, {Table: "a"}, {Table: "_Idem_2"}, {Table: strings.Repeat("x", 40)}, {LockWait: time.Millisecond}} {
		_, err := sqlstore.New(db, sqlstore.SQLite, o)
		assert.NoError(t, err, "New with %+v", o)
	}
	for _, table := range []string{
		"2nd", "a b", "a-b", "a.b", `a"b`, "a;drop", "täble", strings.Repeat("x", 41), "sqlite_records", "SQLite_x", "a\x00", "a\n",
	} {
		_, err := sqlstore.New(db, sqlstore.SQLite, &sqlstore.Options{Table: table})
		assert.True(t, err != nil, "the table name %q is refused", table)
		assert.Contains(t, err.Error(), "table name", "the error for %q", table)
	}
	_, err := sqlstore.New(nil, sqlstore.SQLite, nil)
	assert.Contains(t, fmt.Sprint(err), "sql.Open", "the error without a database")
	_, err = sqlstore.New(db, 0, nil)
	assert.Contains(t, fmt.Sprint(err), "sqlstore.SQLite", "the error without a dialect")
	for _, d := range []sqlstore.Dialect{sqlstore.PostgreSQL, sqlstore.MySQL} {
		_, err = sqlstore.New(db, d, &sqlstore.Options{Now: time.Now})
		assert.Contains(t, fmt.Sprint(err), "leave Options.Now empty", "the error for a clock of its own on a server")
	}
	_, err = sqlstore.New(db, sqlstore.SQLite, &sqlstore.Options{StoreDB: db})
	assert.Contains(t, fmt.Sprint(err), "leave Options.StoreDB nil", "the error for a second pool of one writer")
	_, err = sqlstore.New(db, sqlstore.MySQL+1, nil)
	assert.Contains(t, fmt.Sprint(err), "sqlstore.MySQL", "the error of an unknown dialect")
	_, err = sqlstore.New(db, sqlstore.SQLite, &sqlstore.Options{LockWait: -1})
	assert.Contains(t, fmt.Sprint(err), "LockWait", "the error for a negative wait")
}

func TestDatabaseThatCannotBeReached(t *testing.T) {
	t.Parallel()
	s, err := sqlstore.New(unopenedDB(t), sqlstore.SQLite, nil)
	assert.NoError(t, err, "New")
	err = s.Migrate(t.Context())
	assert.Contains(t, fmt.Sprint(err), "there is nothing to connect to", "the error of Migrate")
}

func TestMarkedContexts(t *testing.T) {
	t.Parallel()
	a, b := unopenedDB(t), unopenedDB(t)
	outer, endOuter := sqlstore.Marked(t.Context(), a)
	inner, endInner := sqlstore.Marked(outer, b)
	for name, c := range map[string]struct {
		ctx  context.Context
		a, b bool
	}{"none": {t.Context(), false, false}, "outer": {outer, true, false}, "inner": {inner, true, true}} {
		assert.Equal(t, sqlstore.InTransaction(c.ctx, a), c.a, "%s: on the outer database", name)
		assert.Equal(t, sqlstore.InTransaction(c.ctx, b), c.b, "%s: on the inner database", name)
	}
	assert.True(t, sqlstore.InTransaction(context.WithoutCancel(inner), a), "a detached context is marked too")
	endInner()
	assert.Equal(t, sqlstore.InTransaction(inner, b), false, "after the inner transaction")
	assert.Equal(t, sqlstore.InTransaction(inner, a), true, "the outer one still runs")
	endOuter()
	assert.Equal(t, sqlstore.InTransaction(inner, a), false, "after both")
}
