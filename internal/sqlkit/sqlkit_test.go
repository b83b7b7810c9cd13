package sqlkit_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

func TestDialects(t *testing.T) {
	t.Parallel()
	for d, known := range map[dbtx.Dialect]bool{0: false, dbtx.SQLite: true, dbtx.PostgreSQL: true, dbtx.MySQL: true, dbtx.MySQL + 1: false} {
		assert.Equal(t, sqlkit.Known(d), known, "whether %v is known", d)
		assert.Equal(t, sqlkit.Choose(d, "a", "b", "c") != "", known, "whether there is a choice for %v", d)
	}
	assert.Equal(t, sqlkit.Choose(dbtx.SQLite, "a", "b", "c")+sqlkit.Choose(dbtx.PostgreSQL, "a", "b", "c")+sqlkit.Choose(dbtx.MySQL, "a", "b", "c"), "abc", "the choices")
	assert.Equal(t, sqlkit.Quote(dbtx.PostgreSQL, "until"), `"until"`, "a name of PostgreSQL")
	assert.Equal(t, sqlkit.Quote(dbtx.MySQL, "until"), "`until`", "a name of MySQL")
	for query, want := range map[string]string{"": "", "a": "a", "?": "$1", "a = ? AND b IN (?, ?)": "a = $1 AND b IN ($2, $3)", strings.Repeat("?", 11): "$1$2$3$4$5$6$7$8$9$10$11", "é?": "é$1"} {
		assert.Equal(t, sqlkit.Placeholders(dbtx.PostgreSQL, query), want, "placeholders of PostgreSQL")
		assert.Equal(t, sqlkit.Placeholders(dbtx.MySQL, query), query, "placeholders of MySQL")
	}
	assert.Equal(t, sqlkit.In(1), "IN (?)", "a list of one")
	assert.Equal(t, sqlkit.In(3), "IN (?, ?, ?)", "a list of three")
}

func TestTableNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "_", "T1", "retrysafe_records", strings.Repeat("x", 40)} {
		assert.NoError(t, sqlkit.CheckTable(name, 40), "the name %q", name)
	}
	for _, name := range []string{"", "1a", "a b", "a-b", `a"`, "a`", "a.b", "é", "sqlite_a", "SQLite_a", strings.Repeat("x", 41)} {
		assert.True(t, sqlkit.CheckTable(name, 40) != nil, "the name %q is refused", name)
	}
}

func TestStatementsOfAScript(t *testing.T) {
	t.Parallel()
	got := sqlkit.Statements("-- a; b\nCREATE TABLE \"def\" (a);\nCREATE INDEX \"def_a\" ON \"def\" (a);\n", "def", "own")
	want := []string{"-- a; b\nCREATE TABLE \"own\" (a)", "CREATE INDEX \"own_a\" ON \"own\" (a)"}
	assert.Equal(t, strings.Join(got, "|"), strings.Join(want, "|"), "the statements")
}

// Errors as drivers have them: MySQL's with a field, PostgreSQL's and SQLite's with a method.
type (
	mysqlError    struct{ Number uint16 }
	postgresError string
	sqliteError   struct {
		code int
		text string
	}
)

func (e *mysqlError) Error() string {
	return fmt.Sprintf("Error %d: Table 'app.Orders' doesn't exist", e.Number)
}
func (e postgresError) Error() string    { return `relation "orders" does not exist` }
func (e postgresError) SQLState() string { return string(e) }
func (e sqliteError) Error() string      { return e.text }
func (e sqliteError) Code() int          { return e.code }

func TestClasses(t *testing.T) {
	t.Parallel()
	for want, all := range map[sqlkit.Class][]error{
		sqlkit.Other: {
			nil, errors.New("Error 1213"), &mysqlError{}, &mysqlError{1064}, postgresError("42601"), postgresError("5"), sqliteError{1, "syntax error"}, sqliteError{19, ""},
		},
		sqlkit.UniqueViolation: {&mysqlError{1062}, &mysqlError{1586}, postgresError("23505"), sqliteError{2067, ""}, sqliteError{1555, ""}, sqliteError{2579, ""}},
		sqlkit.Serialization:   {&mysqlError{1020}, postgresError("40001")},
		sqlkit.Deadlock:        {&mysqlError{1213}, postgresError("40P01"), fmt.Errorf("wrapped: %w", errors.Join(errors.New("x"), &mysqlError{1213}))},
		sqlkit.LockTimeout:     {&mysqlError{1205}, &mysqlError{3572}, postgresError("55P03")},
		sqlkit.Busy:            {sqliteError{5, ""}, sqliteError{517, ""}, sqliteError{6, ""}, sqliteError{262, ""}, sqliteError{15, ""}},
		sqlkit.Canceled:        {&mysqlError{1317}, &mysqlError{1969}, &mysqlError{3024}, postgresError("57014")},
		sqlkit.Lost: {
			&mysqlError{1053}, &mysqlError{1927}, &mysqlError{3169}, &mysqlError{4031}, postgresError("08006"), postgresError("57P01"), postgresError("25P03"),
		},
		sqlkit.NoTable:  {&mysqlError{1146}, postgresError("42P01"), sqliteError{1, "no such table: orders"}},
		sqlkit.NoColumn: {&mysqlError{1054}, postgresError("42703"), sqliteError{1, "no such column: a"}, sqliteError{1, "table t has no column named a"}},
	} {
		for _, err := range all {
			assert.Equal(t, sqlkit.ClassOf(err), want, "the class of %#v", err)
			blocked := want == sqlkit.Serialization || want == sqlkit.Deadlock || want == sqlkit.LockTimeout || want == sqlkit.Busy
			assert.Equal(t, sqlkit.InTheWay(err), blocked, "whether another transaction caused %#v", err)
			if want != sqlkit.Other {
				assert.True(t, sqlkit.Coded(err), "%#v has a code", err)
			}
		}
	}
	assert.Equal(t, sqlkit.Coded(errors.New("broken pipe")), false, "a lost connection has a code")
}

func TestMissingTable(t *testing.T) {
	t.Parallel()
	for _, err := range []error{&mysqlError{1146}, postgresError("42P01"), sqliteError{1, "no such table: main.orders"}} {
		assert.True(t, sqlkit.MissingTable(err, "orders"), "the table of %v", err)
		assert.Equal(t, sqlkit.MissingTable(err, "records"), false, "another table than that of %v", err)
	}
	assert.Equal(t, sqlkit.MissingTable(sqliteError{1, "near orders: syntax error"}, "orders"), false, "another error")
}

func TestLossesSayWhatTheyMean(t *testing.T) {
	t.Parallel()
	l := sqlkit.Loss{Setting: "fsync is off", Harm: "a crash can damage the database", Advice: "turn it on", Commits: true}
	assert.Equal(t, l.Text("ids may repeat"), "fsync is off: a crash can damage the database, and ids may repeat; turn it on", "a setting that loses commits")
	l.Commits = false
	assert.Equal(t, l.Text("ids may repeat"), "fsync is off: a crash can damage the database; turn it on", "a setting that loses none")
}
