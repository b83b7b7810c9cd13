package sqlstore_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/sqlstore"
)

// noDriver opens nothing: New does not touch the database.
type noDriver struct{ driver.Connector }

func (noDriver) Connect(context.Context) (driver.Conn, error) {
	return nil, errors.New("there is nothing to connect to")
}
func (noDriver) Driver() driver.Driver { return nil }

func unopened(t *testing.T) *sql.DB {
	t.Helper()
	db := sql.OpenDB(noDriver{})
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestNewChecksItsArguments(t *testing.T) {
	t.Parallel()
	db := unopened(t)
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

// TestSchemaIsFrozen: files of these versions exist. A change needs a new version and a step from
// the old one; never change the text here.
func TestSchemaIsFrozen(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		name, sum  string
		statements []string
	}{
		{"sqlite_v1", "4f54601ae70c9042321014548887f2c2b82bdae3eac0ddb6ce3333b6412f8d26", sqlstore.Schema(sqlstore.DefaultTable)},
		{"postgres_v1", "889a4b02a5735cb4acd3d3569e8270cc302eaed15728d7a3f5fa6a3831907533", sqlstore.PostgresSchema(sqlstore.DefaultTable)},
		{"mysql_v1", "26c0026bab74a913a6a1cbf0a771771aca9933540b37004a8c278d1b1a66b751", sqlstore.MySQLSchema(sqlstore.DefaultTable)},
	} {
		golden, err := os.ReadFile("testdata/" + v.name + ".golden.sql")
		assert.NoError(t, err, "the golden file")
		embedded, err := os.ReadFile("schema/" + v.name + ".sql")
		assert.NoError(t, err, "the schema")
		assert.Equal(t, string(embedded), string(golden), "%s", v.name)
		sum := sha256.Sum256(golden)
		assert.Equal(t, hex.EncodeToString(sum[:]), v.sum, "the digest of %s", v.name)
		left := string(golden)
		for _, q := range v.statements {
			before, after, found := strings.Cut(left, q+";\n")
			assert.True(t, found && strings.TrimSpace(before) == "", "Migrate runs the statements of %s in their order, next %.40q", v.name, q)
			left = after
		}
		assert.Equal(t, strings.TrimSpace(left), "", "what Migrate does not run of %s", v.name)
	}
}

func TestTableNameReachesEveryStatement(t *testing.T) {
	t.Parallel()
	for _, q := range slices.Concat(sqlstore.Schema("orders_idem"), sqlstore.Statements("orders_idem"),
		sqlstore.PostgresSchema("orders_idem"), sqlstore.PostgresStatements("orders_idem"),
		sqlstore.MySQLSchema("orders_idem"), sqlstore.MySQLStatements("orders_idem")) {
		assert.True(t, !strings.Contains(q, sqlstore.DefaultTable), "the default name is not left in %q", q)
		assert.Contains(t, q, "orders_idem", "a statement")
	}
}

// coded is an error like those of SQLite's drivers.
type coded int

func (c coded) Error() string { return fmt.Sprintf("driver says %d", int(c)) }
func (c coded) Code() int     { return int(c) }

func TestErrorsAreClassified(t *testing.T) {
	t.Parallel()
	for code, busy := range map[int]bool{
		5: true, 261: true, 517: true, 773: true, // busy, and its extended codes
		262: true, // a shared cache
		15:  true, // a race for the WAL
		6:   false, 1: false, 8: false, 11: false, 13: false, 19: false, 787: false,
	} {
		assert.Equal(t, sqlstore.Busy(fmt.Errorf("wrapped: %w", coded(code))), busy, "busy with code %d", code)
	}
	assert.Equal(t, sqlstore.Busy(errors.New("database is locked")), false, "busy by its text alone")

	s, err := sqlstore.New(unopened(t), sqlstore.SQLite, nil)
	assert.NoError(t, err, "New")
	for code, advice := range map[int]string{
		8: "without mode=ro", 8 | 6<<8: "without mode=ro", 11: "restore a backup", 11 | 1<<8: "restore a backup", 13: "make room",
		14: "cannot be opened", 26: "not a SQLite database", 10 | 3<<8: "disk has failed",
	} {
		err := sqlstore.Explain(s, "write", coded(code))
		assert.Contains(t, err.Error(), advice, "the error for code %d", code)
		assert.Contains(t, err.Error(), "driver says", "the error for code %d", code)
		assert.ErrorIs(t, err, coded(code), "the cause of the error")
	}
	other := errors.New("something else")
	assert.ErrorIs(t, sqlstore.Explain(s, "write", other), other, "an error without a code")
	assert.NoError(t, sqlstore.Explain(s, "write", nil), "no error")
}

// numbered is an error like those of MySQL's driver.
type numbered struct{ Number uint16 }

func (e *numbered) Error() string {
	return fmt.Sprintf("Error %d: Table 'app.retrysafe_records'", e.Number)
}

// unnumbered has such a field of another type.
type unnumbered struct{ Number string }

func (unnumbered) Error() string { return "another error" }

func TestErrorsOfMySQLAreClassified(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&numbered{1213}, fmt.Errorf("wrapped: %w", &numbered{1213}), errors.Join(errors.New("first"), fmt.Errorf("second: %w", &numbered{1213})),
	} {
		assert.Equal(t, sqlstore.MySQLNumber(err), uint16(1213), "the number in %v", err)
	}
	for _, err := range []error{nil, errors.New("Error 1213"), unnumbered{"1213"}, (*numbered)(nil)} {
		assert.Equal(t, sqlstore.MySQLNumber(err), uint16(0), "no number")
	}
	s, err := sqlstore.New(unopened(t), sqlstore.MySQL, nil)
	assert.NoError(t, err, "New")
	for number, advice := range map[uint16]string{
		1021: "make room", 1040: "max_connections", 1044: "may not use the database", 1045: "refuses the user", 1046: "names no database", 1049: "no such database",
		1053: "stopping", 1071: "innodb_page_size", 1114: "make room", 1142: "GRANT SELECT", 1146: "call Store.Migrate once", 1153: "max_allowed_packet",
		1203: "max_user_connections", 1286: "no InnoDB", 1290: "connect to the primary", 1665: "binlog_format", 1836: "connect to the primary", 1927: "ended the connection",
	} {
		assert.Contains(t, sqlstore.Explain(s, "write", &numbered{number}).Error(), advice, "the error for %d", number)
	}
}

func TestDatabaseThatCannotBeReached(t *testing.T) {
	t.Parallel()
	s, err := sqlstore.New(unopened(t), sqlstore.SQLite, nil)
	assert.NoError(t, err, "New")
	err = s.Migrate(t.Context())
	assert.Contains(t, fmt.Sprint(err), "there is nothing to connect to", "the error of Migrate")
}

func TestMarkedContexts(t *testing.T) {
	t.Parallel()
	a, b := unopened(t), unopened(t)
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
