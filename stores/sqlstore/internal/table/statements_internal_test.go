package table

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/dberr"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// TestSchemaIsFrozen: files of these versions exist. A change needs a new version and a step from
// the old one; never change the text here.
func TestSchemaIsFrozen(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		name, sum  string
		statements []string
	}{
		{"sqlite_v1", "4f54601ae70c9042321014548887f2c2b82bdae3eac0ddb6ce3333b6412f8d26", sqliteStatements(DefaultTable).CreateTables},
		{"postgres_v1", "889a4b02a5735cb4acd3d3569e8270cc302eaed15728d7a3f5fa6a3831907533", postgresStatements("", DefaultTable).CreateTables},
		{"mysql_v1", "26c0026bab74a913a6a1cbf0a771771aca9933540b37004a8c278d1b1a66b751", mysqlStatements("", DefaultTable).CreateTables},
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

// statementsOf returns the statements that name a table.
func statementsOf(q *Statements) []string {
	all := slices.Concat(q.TouchTables, []string{
		q.CountTables, q.LoadVersion, q.LockFile, q.LoadRow, q.LockRow, q.LoadRows, q.LockRows, q.UpdateRow, q.UpdateSame, q.InsertRow, q.UpdateRows, q.InsertRows, q.FinishAttempt,
		q.ListRecords, q.FindExpired, q.RemoveOne, q.RemoveExpired, q.LoadFloor, q.RaiseFloor, q.LoadUsage, q.LockUsage, q.UpdateUsage, q.InsertUsage, q.DeleteUsage,
		q.FindExpiredUsage, q.RemoveExpiredUsage, q.LockExpiredUsage, q.CreateIndex, q.CountIndex,
	})
	if q.LockExpired != nil {
		all = append(all, q.LockExpired(3), q.RemoveLocked(3), q.RemoveLockedUsage(3))
	}
	return slices.DeleteFunc(all, func(q string) bool { return q == "" })
}

func TestTableNameReachesEveryStatement(t *testing.T) {
	t.Parallel()
	sqlite, postgres, mysql := sqliteStatements("orders_idem"), postgresStatements("", "orders_idem"), mysqlStatements("", "orders_idem")
	for _, q := range slices.Concat(sqlite.CreateTables, statementsOf(&sqlite), postgres.CreateTables, statementsOf(&postgres), mysql.CreateTables, statementsOf(&mysql)) {
		assert.True(t, !strings.Contains(q, DefaultTable), "the default name is not left in %q", q)
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
		assert.Equal(t, isSQLiteBusy(fmt.Errorf("wrapped: %w", coded(code))), busy, "busy with code %d", code)
	}
	assert.Equal(t, isSQLiteBusy(errors.New("database is locked")), false, "busy by its text alone")

	db := Open(nil, dbtx.SQLite, Settings{})
	for code, advice := range map[int]string{
		8: "without mode=ro", 8 | 6<<8: "without mode=ro", 11: "restore a backup", 11 | 1<<8: "restore a backup", 13: "make room",
		14: "cannot be opened", 26: "not a SQLite database", 10 | 3<<8: "disk has failed",
	} {
		err := db.CallerError("write", coded(code))
		assert.Contains(t, err.Error(), advice, "the error for code %d", code)
		assert.Contains(t, err.Error(), "driver says", "the error for code %d", code)
		assert.ErrorIs(t, err, coded(code), "the cause of the error")
	}
	other := errors.New("something else")
	assert.ErrorIs(t, db.CallerError("write", other), other, "an error without a code")
	assert.NoError(t, db.CallerError("write", nil), "no error")
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
		assert.Equal(t, dberr.MySQLNumber(err), uint16(1213), "the number in %v", err)
	}
	for _, err := range []error{nil, errors.New("Error 1213"), unnumbered{"1213"}, (*numbered)(nil)} {
		assert.Equal(t, dberr.MySQLNumber(err), uint16(0), "no number")
	}
	db := Open(nil, dbtx.MySQL, Settings{})
	for number, advice := range map[uint16]string{
		1021: "make room", 1040: "max_connections", 1044: "may not use the database", 1045: "refuses the user", 1046: "names no database", 1049: "no such database",
		1053: "stopping", 1071: "innodb_page_size", 1114: "make room", 1142: "GRANT SELECT", 1146: "call Store.Migrate once", 1153: "max_allowed_packet",
		1203: "max_user_connections", 1286: "no InnoDB", 1290: "connect to the primary", 1665: "binlog_format", 1836: "connect to the primary", 1927: "ended the connection",
	} {
		assert.Contains(t, db.CallerError("write", &numbered{number}).Error(), advice, "the error for %d", number)
	}
}
