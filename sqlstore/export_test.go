package sqlstore

import "github.com/retrysafe/retrysafe/internal/dberr"

// Schema are the statements that make the tables of version 1 under a name, and Step those that
// make version 2 of it.
func Schema(table string) []string { return sqliteQueries(table).schema }
func Step(table string) []string   { return sqliteQueries(table).step }

// PostgresSchema and PostgresStatements are those of PostgreSQL.
func PostgresSchema(table string) []string { return postgresQueries(table).schema }

func PostgresStatements(table string) []string {
	q := postgresQueries(table)
	return append([]string{
		q.exists, q.version, q.load, q.loadToWrite, q.loadMany, q.loadManyToWrite, q.put, q.make, q.putMany, q.makeMany, q.list, q.expired, q.removeMany, q.raise,
		q.loadUsage, q.loadUsageToWrite, q.putUsage, q.makeUsage, q.dropUsage, q.expiredUsage, q.removeUsage,
	}, q.touch...)
}

// MySQLSchema and MySQLStatements are those of MySQL and MariaDB.
func MySQLSchema(table string) []string { return mysqlQueries(table).schema }

func MySQLStatements(table string) []string {
	q := mysqlQueries(table)
	return append([]string{
		q.exists, q.version, q.load, q.loadToWrite, q.loadMany, q.loadManyToWrite, q.put, q.make, q.putMany, q.makeMany, q.list, q.expired, q.lockOld(3), q.dropOld(3), q.raise,
		q.loadUsage, q.loadUsageToWrite, q.putUsage, q.makeUsage, q.dropUsage, q.expiredUsage, q.lockOldUsage, q.dropOldUsage(3),
	}, q.touch...)
}

// Busy tells whether a driver's error is worth another try.
func Busy(err error) bool { return sqliteBusy(err) }

// MySQLNumber is the number of a server's error.
func MySQLNumber(err error) uint16 { return dberr.MySQLNumber(err) }

// Explain makes a driver's error what callers see.
func Explain(s *Store, step string, err error) error { return s.failed(step, err) }

// Statements are all statements of a store but the schema.
func Statements(table string) []string {
	q := sqliteQueries(table)
	return append([]string{
		q.exists, q.version, q.lock, q.load, q.loadMany, q.put, q.finish, q.list, q.expired, q.remove, q.raise,
		q.loadUsage, q.putUsage, q.dropUsage, q.expiredUsage, q.removeUsage,
	}, q.touch...)
}

// Marked and InTransaction mark a context as that of a transaction on a database, and look for the
// mark.
var (
	Marked        = marked
	InTransaction = inTransaction
)
