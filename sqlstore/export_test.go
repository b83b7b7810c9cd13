package sqlstore

import "github.com/retrysafe/retrysafe/internal/dberr"

// Schema returns the statements that create the tables with a name.
func Schema(table string) []string { return sqliteQueries(table).schema }

// PostgresSchema and PostgresStatements return those of PostgreSQL.
func PostgresSchema(table string) []string { return postgresQueries("", table).schema }

func PostgresStatements(table string) []string {
	q := postgresQueries("", table)
	return append([]string{
		q.exists, q.version, q.load, q.loadToWrite, q.loadMany, q.loadManyToWrite, q.put, q.make, q.putMany, q.makeMany, q.list, q.expired, q.removeMany, q.floor, q.raise,
		q.loadUsage, q.loadUsageToWrite, q.putUsage, q.makeUsage, q.dropUsage, q.expiredUsage, q.removeUsage, q.indexKeys,
	}, q.touch...)
}

// MySQLSchema and MySQLStatements return those of MySQL and MariaDB.
func MySQLSchema(table string) []string { return mysqlQueries("", table).schema }

func MySQLStatements(table string) []string {
	q := mysqlQueries("", table)
	return append([]string{
		q.exists, q.version, q.load, q.loadToWrite, q.loadMany, q.loadManyToWrite, q.put, q.make, q.putMany, q.makeMany, q.list, q.expired, q.lockOld(3), q.dropOld(3), q.raise,
		q.loadUsage, q.loadUsageToWrite, q.putUsage, q.makeUsage, q.dropUsage, q.expiredUsage, q.lockOldUsage, q.dropOldUsage(3), q.indexKeys, q.hasIndex,
	}, q.touch...)
}

// Busy reports whether a driver's error is worth another try.
func Busy(err error) bool { return sqliteBusy(err) }

// MySQLNumber returns the number of a server's error.
func MySQLNumber(err error) uint16 { return dberr.MySQLNumber(err) }

// Explain turns a driver's error into the one that callers see.
func Explain(s *Store, step string, err error) error { return s.db.failed(step, err) }

// Statements returns all statements of a store except the schema.
func Statements(table string) []string {
	q := sqliteQueries(table)
	return append([]string{
		q.exists, q.version, q.lock, q.load, q.loadMany, q.put, q.putSame, q.make, q.finish, q.indexKeys, q.list, q.expired, q.remove, q.raise,
		q.loadUsage, q.putUsage, q.dropUsage, q.expiredUsage, q.removeUsage,
	}, q.touch...)
}

// Marked marks a context as that of a transaction on a database; InTransaction looks for the mark.
var (
	Marked        = marked
	InTransaction = inTransaction
)
