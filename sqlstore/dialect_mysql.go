package sqlstore

import (
	"database/sql"
	_ "embed" // the schema
	"fmt"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/dberr"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// mysqlSchema creates version 1, with the default names. It is frozen: a change needs a new version
// and a step in Migrate.
//
//go:embed schema/mysql_v1.sql
var mysqlSchema string

// The server's clock in microseconds, whatever the time zone of the session.
const (
	// mysqlStart is the start of the statement: what is seen without a lock was true then or later.
	mysqlStart = sqlkit.MySQLStatementClock
	// mysqlNow is the time at which a row is returned, after its lock was taken. It needs a session
	// in UTC, since there is no UTC_SYSDATE.
	mysqlNow = `TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', SYSDATE(6))`
)

// mysqlVersion is the version of the tables, or transacts if the session has autocommit off (see
// mysqlManner.reading).
const mysqlVersion = `IF(@@autocommit, m.version, -1)`

func mysqlQueries(database, table string) queries {
	in := withinSchema("`", database)
	t, meta, counts := in+"`"+table+"`", in+"`"+table+"_meta`", in+"`"+table+"_limits`"
	values := make([]string, len(stored))
	for i, c := range stored {
		values[i] = c + " = VALUES(" + c + ")"
	}
	insert := `INSERT INTO ` + t + ` (` + strings.Join(inserted, ", ") + `) VALUES (` + sqlkit.List(len(inserted)) + `) ON DUPLICATE KEY UPDATE `
	// A subquery does not lock the row with the tables' version. If that row were locked, all
	// writers would wait for it.
	version, floor := `(SELECT version FROM `+meta+` WHERE id = 1)`, `(SELECT fence_floor FROM `+meta+` WHERE id = 1)`
	q := queries{
		newest: 1, table: t, resumes: true, where: `SELECT coalesce(DATABASE(), '')`,
		schema:  sqlkit.Statements(mysqlSchema, DefaultTable, table),
		version: `SELECT version FROM ` + meta + ` WHERE id = 1`,
		exists:  sqlkit.TableExists(MySQL, table+"_meta"),
		touch: []string{
			`UPDATE ` + meta + ` SET version = version WHERE id = 1`,
			`INSERT INTO ` + t + ` SELECT * FROM ` + t + ` WHERE id = ''`,
			`UPDATE ` + t + ` SET id = id WHERE id = ''`,
			`DELETE FROM ` + t + ` WHERE id = ''`,
			`INSERT INTO ` + counts + ` SELECT * FROM ` + counts + ` WHERE id = ''`,
			`UPDATE ` + counts + ` SET id = id WHERE id = ''`,
			`DELETE FROM ` + counts + ` WHERE id = ''`,
		},
		load: `SELECT ` + mysqlVersion + `, m.fence_floor, ` + mysqlStart + `, ` + selected + `r.answer
			FROM ` + meta + ` m LEFT JOIN ` + t + ` r ON r.id = ? WHERE m.id = 1`,
		loadToWrite: `SELECT ` + version + `, ` + floor + `, ` + mysqlNow + `, ` + selected + `r.answer` + mysqlLocked(t),
		loadMany: `SELECT ` + mysqlVersion + `, m.fence_floor, ` + mysqlStart + `, r.id, ` + selected + `r.answer
			FROM ` + meta + ` m LEFT JOIN ` + t + ` r FORCE INDEX (PRIMARY) ON r.id IN (?) WHERE m.id = 1`,
		loadManyToWrite: `SELECT ` + version + `, ` + floor + `, ` + mysqlNow + `, r.id, ` + selected + `r.answer
			FROM (SELECT 1 AS one) AS o LEFT JOIN ` + t + ` r FORCE INDEX (PRIMARY) ON r.id IN (?) FOR UPDATE SKIP LOCKED`,
		putMany:     insert + strings.Join(values, ", "),
		makeMany:    insert + mysqlUnchanged,
		put:         updating(t),
		make:        insert + mysqlUnchanged,
		made:        byLastID,
		list:        `SELECT r.id, r.parts, ` + selected + `NULL FROM ` + t + ` r WHERE (r.expires = 0 OR r.expires > ?)`,
		contains:    `LOCATE(?, r.parts) > 0`,
		hasIndex:    mysqlListing(database, table) + ` AND seq_in_index = 1 AND column_name = 'parts' AND sub_part IS NULL`,
		otherIndex:  mysqlListing(database, table),
		renameOther: `ALTER TABLE ` + t + ` RENAME INDEX listing TO listing_other`,
		indexKeys:   `CREATE INDEX listing ON ` + t + ` (parts)`,
		indexOnline: `CREATE INDEX listing ON ` + t + ` (parts) ALGORITHM=INPLACE LOCK=NONE`,
		onlineWaits: " (while a transaction on the table stays open it waits, and all calls wait for it: SET lock_wait_timeout = 1 before it lets it give up after a second)",
		numbered:    func(q string) string { return q },
	}
	// The session is the caller's: its time zone stays as it is.
	q.mysqlJoin(t, meta, `SELECT `+version+`, `+floor+`, `+mysqlStart+`, `+selected+`r.answer`, strings.TrimSuffix(insert, ` ON DUPLICATE KEY UPDATE `))
	q.mysqlSweep(t, meta)
	q.mysqlUsage(meta, counts, version)
	return q
}

// mysqlListing counts the columns of indexes with the name of that of Options.Listing.
func mysqlListing(database, table string) string {
	in := `DATABASE()`
	if database != "" {
		in = `'` + database + `'`
	}
	return `SELECT count(*) FROM information_schema.statistics WHERE table_schema = ` + in + ` AND index_name = 'listing'
		AND IF(@@lower_case_table_names = 0, CAST(table_name AS BINARY) = '` + table + `', table_name = '` + table + `')`
}

// mysqlUnchanged ends an insert: an existing row stays unchanged, and the statement returns a last
// id. The count of rows depends on the driver's clientFoundRows, and INSERT IGNORE would truncate a
// key that is too long.
const mysqlUnchanged = `id = IF(LAST_INSERT_ID(1), id, id)`

// mysqlOne is the row of an id, or none. Without FORCE INDEX the server may scan a small table as a
// whole, and lock and wait for unrelated rows.
func mysqlOne(table string) string {
	return ` FROM (SELECT 1 AS one) AS o LEFT JOIN ` + table + ` r FORCE INDEX (PRIMARY) ON r.id = ?`
}

func mysqlLocked(table string) string { return mysqlOne(table) + ` FOR UPDATE` }

// mysqlJoin sets the statements that claim a key in the transaction of a caller.
func (q *queries) mysqlJoin(t, meta, inSession, insert string) {
	q.loadToJoin = inSession + mysqlLocked(t)
	q.loadUnlocked = inSession + mysqlOne(t)
	q.waitToJoin = func(wait, table time.Duration) string {
		return `SET ` + fmt.Sprintf(mysqlLimit, mysqlSeconds(wait), mysqlTableSeconds(table))
	}
	q.waitAsBefore = mysqlJoined
	q.loadNow = inSession + mysqlLocked(t) + ` NOWAIT`
	q.makeToJoin = insert
	// At READ COMMITTED it does not lock the row with the tables' version. The driver returns the
	// last id with the result.
	q.claimOnce = `INSERT INTO ` + t + ` (id, parts, owner, data, lease_end, state, fence, expires, updated)
		SELECT ?, ?, ?, ?, ` + mysqlStart + ` + ?, 2, LAST_INSERT_ID(` + mysqlStart + `), 0, ` + mysqlStart + `
		FROM ` + meta + ` m WHERE m.id = 1 AND m.version = 1 AND m.fence_floor < ` + mysqlStart
	q.duplicate = func(err error) bool { return dberr.MySQLNumber(err) == numberDuplicate }
	q.held = func(err error) bool { n := dberr.MySQLNumber(err); return n == numberLockWait || n == numberNoWait }
	// With autocommit off nothing commits by itself; DDL after a ROLLBACK is not noticed.
	q.left = `SELECT @@autocommit`
	// Through another index, above READ COMMITTED, it would also lock the gaps next to the row
	// in that index.
	q.finish = finishing(t + ` FORCE INDEX (PRIMARY)`)
	q.confirm = `UPDATE ` + t + ` SET updated = updated WHERE id = ?`
}

// mysqlSweep sets the statements that remove expired records.
func (q *queries) mysqlSweep(t, meta string) {
	q.expired = `SELECT id FROM ` + t + ` WHERE expires BETWEEN 1 AND ? ORDER BY expires LIMIT ?`
	// A row that another transaction has locked is being claimed again or removed there.
	// Without FORCE INDEX the server may scan a small table as a whole, and wait for unrelated
	// rows.
	q.lockOld = func(n int) string {
		return `SELECT id, fence FROM ` + t + ` FORCE INDEX (PRIMARY) WHERE id ` + sqlkit.In(n) + ` AND expires BETWEEN 1 AND ? ORDER BY id FOR UPDATE SKIP LOCKED`
	}
	q.dropOld = func(n int) string {
		return `DELETE d FROM ` + t + ` AS d FORCE INDEX (PRIMARY) WHERE d.id ` + sqlkit.In(n) + ` AND d.expires BETWEEN 1 AND ?`
	}
	q.raise = `UPDATE ` + meta + ` SET fence_floor = GREATEST(fence_floor, ?) WHERE id = 1`
}

// mysqlUsage sets the statements for the counts of tenants.
func (q *queries) mysqlUsage(meta, counts, version string) {
	insert := `INSERT INTO ` + counts + ` (id, namespace, tenant, expires, counts) VALUES (?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE `
	q.loadUsage = `SELECT ` + mysqlVersion + `, ` + mysqlStart + `, l.counts FROM ` + meta + ` m LEFT JOIN ` + counts + ` l ON l.id = ? WHERE m.id = 1`
	q.loadUsageToWrite = `SELECT ` + version + `, ` + mysqlNow + `, r.counts` + mysqlLocked(counts)
	q.putUsage = insert + `expires = VALUES(expires), counts = VALUES(counts)`
	q.makeUsage = insert + mysqlUnchanged
	q.dropUsage = `DELETE FROM ` + counts + ` WHERE id = ?`
	q.expiredUsage = `SELECT count(*) FROM (SELECT 1 FROM ` + counts + ` WHERE expires <= ? LIMIT 1) AS found`
	q.lockOldUsage = `SELECT id, 0 FROM ` + counts + ` WHERE expires <= ? ORDER BY expires LIMIT ? FOR UPDATE SKIP LOCKED`
	q.dropOldUsage = func(n int) string {
		return `DELETE d FROM ` + counts + ` AS d FORCE INDEX (PRIMARY) WHERE d.id ` + sqlkit.In(n) + ``
	}
}

// byLastID reports whether a statement has inserted a row. If it met an existing row, it has set
// the last id.
func byLastID(r sql.Result) (bool, error) {
	id, err := r.LastInsertId()
	return id == 0, err
}

// Session settings during a transaction of the store:
//
//   - Autocommit is off, so that no statement commits on its own after the server has rolled back.
//   - sql_mode is strict; otherwise the server truncates values that are too long.
//   - Waits for rows and tables end after a second, the shortest time that the server accepts. A
//     caller that still wants to wait tries again. So no wait stays on the server for longer after
//     its client is gone.
const (
	mysqlKeep = `SET @retrysafe_autocommit = @@autocommit, @retrysafe_mode = @@sql_mode, @retrysafe_zone = @@time_zone, ` +
		`@retrysafe_row_wait = @@innodb_lock_wait_timeout, @retrysafe_table_wait = @@lock_wait_timeout, @retrysafe_idle = @@wait_timeout, ` +
		`autocommit = 0, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', ` +
		`innodb_lock_wait_timeout = 1, lock_wait_timeout = 1, wait_timeout = %d`
	mysqlPutBack = `autocommit = @retrysafe_autocommit, sql_mode = @retrysafe_mode, time_zone = @retrysafe_zone, ` +
		`innodb_lock_wait_timeout = @retrysafe_row_wait, lock_wait_timeout = @retrysafe_table_wait, wait_timeout = @retrysafe_idle`
	// Whatever the value of completion_type.
	mysqlRollback = `ROLLBACK AND NO CHAIN NO RELEASE`
)

// Session settings during a transaction of the caller's work: autocommit is off. On a server
// without SET STATEMENT the lock waits are those of the claim until the key is claimed. The work
// uses the session's other settings.
const (
	mysqlJoin   = `SET @retrysafe_autocommit = @@autocommit, autocommit = 0`
	mysqlLimit  = `@retrysafe_row_wait = @@innodb_lock_wait_timeout, @retrysafe_table_wait = @@lock_wait_timeout, innodb_lock_wait_timeout = %d, lock_wait_timeout = %d`
	mysqlJoined = `SET ` + mysqlNoLimit
	// mysqlEndConnection ends the connection that it is sent on.
	mysqlEndConnection = `KILL CONNECTION CONNECTION_ID()`
	mysqlLeft          = `SET autocommit = @retrysafe_autocommit`
	mysqlNoLimit       = `innodb_lock_wait_timeout = @retrysafe_row_wait, lock_wait_timeout = @retrysafe_table_wait`
	// mysqlLongestWait is the maximum that MySQL 8 accepts.
	mysqlLongestWait = 1 << 30
)

// mysqlJoining is the first statement of a transaction of the caller's work.
func mysqlJoining(limited bool, wait, table time.Duration) string {
	if !limited {
		return mysqlJoin
	}
	return mysqlJoin + `, ` + fmt.Sprintf(mysqlLimit, mysqlSeconds(wait), mysqlTableSeconds(table))
}

// mysqlLeaving is the statement after such a transaction.
func mysqlLeaving(limited bool) string {
	if !limited {
		return mysqlLeft
	}
	return mysqlLeft + `, ` + mysqlNoLimit
}

// mysqlBeginning is the first statement of a transaction. The server ends the session if its client
// sends nothing for idle seconds.
func mysqlBeginning(idle int64) string { return fmt.Sprintf(mysqlKeep, idle) }

// mysqlCommitting commits by turning autocommit on, and restores the session. If it reaches the
// server after notAfter, it fails and changes nothing: the server checks all values before it sets
// the first, and 2 is not a valid value for a switch. A plain COMMIT would be carried out whenever
// it arrives, and a single statement cannot have a condition before it.
func mysqlCommitting(notAfter int64) string {
	on := "1"
	if notAfter != 0 {
		on = fmt.Sprintf("IF(%s <= %d, 1, 2)", mysqlNow, notAfter)
	}
	return "SET autocommit = " + on + ", " + mysqlPutBack
}
