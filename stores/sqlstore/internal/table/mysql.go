package table

import (
	"cmp"
	"context"
	"database/sql"
	_ "embed" // the schema
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/internal/dberr"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// mysql is the backend for MySQL and MariaDB.
type mysql struct{ server }

// mysqlKind has the statements for MySQL and MariaDB; it sends one at a time.
type mysqlKind struct {
	table            string
	lockWait         time.Duration
	syntax           *mysqlSyntax
	sawAutocommitOff *atomic.Bool // a session of the pool had autocommit off
}

// beginReads lets statements wait for a locked table no longer than LockWait. Without that limit
// they would stay on the server, one for each call that gives up, until the table is free.
//
// If sessions have autocommit off, it turns autocommit on until endReads. Otherwise the reads would
// open a transaction, read from its snapshot from then on, and lock what they read at levels that
// do so.
func (m mysqlKind) beginReads(ctx context.Context, conn *sql.Conn) (r readSession, err error) {
	if r.restores = m.sawAutocommitOff.Load(); r.restores {
		err = sqlkit.Run(ctx, conn, []string{mysqlRollback, `SET @retrysafe_autocommit = @@autocommit, autocommit = 1`})
	}
	if r.limitsEach = !m.syntax.noSetStatement.Load(); r.limitsEach {
		r.execer = prefixedConn{conn, fmt.Sprintf("SET STATEMENT lock_wait_timeout = %d FOR ", mysqlTableSeconds(m.lockWait))}
	} else {
		r.execer = conn
	}
	return r, err
}

// endReads learns from a refusal that sessions have autocommit off, or that the server cannot limit
// a single statement.
func (m mysqlKind) endReads(ctx context.Context, conn *sql.Conn, r readSession, err error) (again bool, _ error) {
	switch {
	case r.limitsEach && dberr.MySQLNumber(err) == numberSyntax:
		m.syntax.noSetStatement.Store(true)
		again = true
	case !r.restores && errors.Is(err, errTransacts):
		m.sawAutocommitOff.Store(true)
		again = true
	}
	if !r.restores {
		return again, err
	}
	if _, failed := conn.ExecContext(ctx, `SET autocommit = @retrysafe_autocommit`); failed != nil {
		sqlkit.Discard(conn)
		return false, errors.Join(err, failed)
	}
	return again, err
}

// prefixedConn is a connection whose queries have a beginning in common.
type prefixedConn struct {
	*sql.Conn
	prefix string
}

func (l prefixedConn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return l.Conn.QueryContext(ctx, l.prefix+query, args...)
}

func (l prefixedConn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return l.Conn.QueryRowContext(ctx, l.prefix+query, args...)
}

// beginOn ends waits at the call's time limit, since the server counts in whole seconds.
func (m mysqlKind) beginOn(call context.Context, conn *sql.Conn, wait Patience) (within context.Context, err error) {
	// The server ends the session if its client sends nothing for so many seconds, at least 5.
	idle := (time.Duration(wait.millisLeft())*time.Millisecond + 6*Slack) / time.Second
	return wait, m.syntax.beginReadCommitted(call, conn, fmt.Sprintf(mysqlKeep, idle))
}

// commitOn commits by turning autocommit on, and restores the session. If it reaches the server
// after notAfter, it fails and changes nothing: the server checks all values before it sets the
// first, and 2 is not a valid value for a switch. A plain COMMIT would be carried out whenever it
// arrives, and a single statement cannot have a condition before it.
func (mysqlKind) commitOn(call context.Context, conn *sql.Conn, notAfter time.Time) error {
	on := "1"
	if !notAfter.IsZero() {
		on = fmt.Sprintf("IF(%s <= %d, 1, 2)", mysqlNow, notAfter.UnixMicro())
	}
	_, err := conn.ExecContext(call, "SET autocommit = "+on+", "+mysqlPutBack)
	if dberr.MySQLNumber(err) == numberWrongValue {
		return storeapi.ErrTooLate
	}
	return err
}

// rollBackOn rolls back first: turning autocommit on commits.
func (mysqlKind) rollBackOn(call context.Context, conn *sql.Conn) error {
	return sqlkit.Run(call, conn, []string{mysqlRollback, "SET " + mysqlPutBack})
}

func (mysqlKind) classifyDriverError(err error) ErrorClass {
	switch dberr.MySQLNumber(err) {
	case numberDeadlock, numberSnapshot, numberLockWait:
		return Blocked
	case numberInterrupted, numberStatementTime, numberExecutionTime:
		return lockTimedOut
	case 0, numberShutdown, numberKilled, numberSessionKilled, numberIdle:
		return OnlyLost
	}
	return finalError
}

func (m mysqlKind) adviceFor(err error) (text string, noTable bool) {
	number := dberr.MySQLNumber(err)
	if number == numberNoTable && strings.Contains(strings.ToLower(err.Error()), strings.ToLower(m.table)) {
		return "", true
	}
	return mysqlAdvice[number], false
}

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
// mysqlManner.endReads).
const mysqlVersion = `IF(@@autocommit, m.version, -1)`

func mysqlStatements(database, table string) Statements {
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
	q := Statements{
		SchemaVersion: 1, TableName: t, Resumes: true, FindSchema: `SELECT coalesce(DATABASE(), '')`,
		CreateTables: sqlkit.Statements(mysqlSchema, DefaultTable, table),
		LoadVersion:  `SELECT version FROM ` + meta + ` WHERE id = 1`,
		CountTables:  sqlkit.TableExists(dbtx.MySQL, table+"_meta"),
		TouchTables: []string{
			`UPDATE ` + meta + ` SET version = version WHERE id = 1`,
			`INSERT INTO ` + t + ` SELECT * FROM ` + t + ` WHERE id = ''`,
			`UPDATE ` + t + ` SET id = id WHERE id = ''`,
			`DELETE FROM ` + t + ` WHERE id = ''`,
			`INSERT INTO ` + counts + ` SELECT * FROM ` + counts + ` WHERE id = ''`,
			`UPDATE ` + counts + ` SET id = id WHERE id = ''`,
			`DELETE FROM ` + counts + ` WHERE id = ''`,
		},
		LoadRow: `SELECT ` + mysqlVersion + `, m.fence_floor, ` + mysqlStart + `, ` + selected + `r.answer
			FROM ` + meta + ` m LEFT JOIN ` + t + ` r ON r.id = ? WHERE m.id = 1`,
		LockRow: `SELECT ` + version + `, ` + floor + `, ` + mysqlNow + `, ` + selected + `r.answer` + mysqlLocked(t),
		LoadRows: `SELECT ` + mysqlVersion + `, m.fence_floor, ` + mysqlStart + `, r.id, ` + selected + `r.answer
			FROM ` + meta + ` m LEFT JOIN ` + t + ` r FORCE INDEX (PRIMARY) ON r.id IN (?) WHERE m.id = 1`,
		LockRows: `SELECT ` + version + `, ` + floor + `, ` + mysqlNow + `, r.id, ` + selected + `r.answer
			FROM (SELECT 1 AS one) AS o LEFT JOIN ` + t + ` r FORCE INDEX (PRIMARY) ON r.id IN (?) FOR UPDATE SKIP LOCKED`,
		UpdateRows:        insert + strings.Join(values, ", "),
		InsertRows:        insert + mysqlUnchanged,
		UpdateRow:         updateStatement(t),
		InsertRow:         insert + mysqlUnchanged,
		HasInserted:       insertedByLastID,
		ListRecords:       `SELECT r.id, r.parts, ` + selected + `NULL FROM ` + t + ` r WHERE (r.expires = 0 OR r.expires > ?)`,
		PartsContain:      `LOCATE(?, r.parts) > 0`,
		CountIndex:        mysqlListing(database, table) + ` AND seq_in_index = 1 AND column_name = 'parts' AND sub_part IS NULL`,
		CountOtherIndex:   mysqlListing(database, table),
		RenameOtherIndex:  `ALTER TABLE ` + t + ` RENAME INDEX listing TO listing_other`,
		CreateIndex:       `CREATE INDEX listing ON ` + t + ` (parts)`,
		CreateIndexOnline: `CREATE INDEX listing ON ` + t + ` (parts) ALGORITHM=INPLACE LOCK=NONE`,
		OnlineWaits:       " (while a transaction on the table stays open it waits, and all calls wait for it: SET lock_wait_timeout = 1 before it lets it give up after a second)",
		Numbered:          func(q string) string { return q },
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
func (q *Statements) mysqlJoin(t, meta, inSession, insert string) {
	q.LockToJoin = inSession + mysqlLocked(t)
	q.LoadUnlocked = inSession + mysqlOne(t)
	q.LimitJoinWait = func(wait, table time.Duration) string {
		return `SET ` + fmt.Sprintf(mysqlLimit, mysqlSeconds(wait), mysqlTableSeconds(table))
	}
	q.RestoreWait = mysqlJoined
	q.LockNow = inSession + mysqlLocked(t) + ` NOWAIT`
	q.InsertToJoin = insert
	// At READ COMMITTED it does not lock the row with the tables' version. The driver returns the
	// last id with the result.
	q.ClaimOnce = `INSERT INTO ` + t + ` (id, parts, owner, data, lease_end, state, fence, expires, updated)
		SELECT ?, ?, ?, ?, ` + mysqlStart + ` + ?, 2, LAST_INSERT_ID(` + mysqlStart + `), 0, ` + mysqlStart + `
		FROM ` + meta + ` m WHERE m.id = 1 AND m.version = 1 AND m.fence_floor < ` + mysqlStart
	q.IsDuplicate = func(err error) bool { return dberr.MySQLNumber(err) == numberDuplicate }
	q.IsHeld = func(err error) bool { n := dberr.MySQLNumber(err); return n == numberLockWait || n == numberNoWait }
	// With autocommit off nothing commits by itself; DDL after a ROLLBACK is not noticed.
	q.HasLeft = `SELECT @@autocommit`
	// Through another index, above READ COMMITTED, it would also lock the gaps next to the row
	// in that index.
	q.FinishAttempt = finishStatement(t + ` FORCE INDEX (PRIMARY)`)
	q.ConfirmRow = `UPDATE ` + t + ` SET updated = updated WHERE id = ?`
}

// mysqlSweep sets the statements that remove expired records.
func (q *Statements) mysqlSweep(t, meta string) {
	q.FindExpired = `SELECT id FROM ` + t + ` WHERE expires BETWEEN 1 AND ? ORDER BY expires LIMIT ?`
	// A row that another transaction has locked is being claimed again or removed there.
	// Without FORCE INDEX the server may scan a small table as a whole, and wait for unrelated
	// rows.
	q.LockExpired = func(n int) string {
		return `SELECT id, fence FROM ` + t + ` FORCE INDEX (PRIMARY) WHERE id ` + sqlkit.In(n) + ` AND expires BETWEEN 1 AND ? ORDER BY id FOR UPDATE SKIP LOCKED`
	}
	q.RemoveLocked = func(n int) string {
		return `DELETE d FROM ` + t + ` AS d FORCE INDEX (PRIMARY) WHERE d.id ` + sqlkit.In(n) + ` AND d.expires BETWEEN 1 AND ?`
	}
	q.RaiseFloor = `UPDATE ` + meta + ` SET fence_floor = GREATEST(fence_floor, ?) WHERE id = 1`
}

// mysqlUsage sets the statements for the counts of tenants.
func (q *Statements) mysqlUsage(meta, counts, version string) {
	insert := `INSERT INTO ` + counts + ` (id, namespace, tenant, expires, counts) VALUES (?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE `
	q.LoadUsage = `SELECT ` + mysqlVersion + `, ` + mysqlStart + `, l.counts FROM ` + meta + ` m LEFT JOIN ` + counts + ` l ON l.id = ? WHERE m.id = 1`
	q.LockUsage = `SELECT ` + version + `, ` + mysqlNow + `, r.counts` + mysqlLocked(counts)
	q.UpdateUsage = insert + `expires = VALUES(expires), counts = VALUES(counts)`
	q.InsertUsage = insert + mysqlUnchanged
	q.DeleteUsage = `DELETE FROM ` + counts + ` WHERE id = ?`
	q.FindExpiredUsage = `SELECT count(*) FROM (SELECT 1 FROM ` + counts + ` WHERE expires <= ? LIMIT 1) AS found`
	q.LockExpiredUsage = `SELECT id, 0 FROM ` + counts + ` WHERE expires <= ? ORDER BY expires LIMIT ? FOR UPDATE SKIP LOCKED`
	q.RemoveLockedUsage = func(n int) string {
		return `DELETE d FROM ` + counts + ` AS d FORCE INDEX (PRIMARY) WHERE d.id ` + sqlkit.In(n) + ``
	}
}

// insertedByLastID reports whether a statement has inserted a row. If it met an existing row, it
// has set the last id.
func insertedByLastID(r sql.Result) (bool, error) {
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
	// EndMySQLConnection ends the connection that it is sent on.
	EndMySQLConnection = `KILL CONNECTION CONNECTION_ID()`
	mysqlLeft          = `SET autocommit = @retrysafe_autocommit`
	mysqlNoLimit       = `innodb_lock_wait_timeout = @retrysafe_row_wait, lock_wait_timeout = @retrysafe_table_wait`
	// mysqlLongestWait is the maximum that MySQL 8 accepts.
	mysqlLongestWait = 1 << 30
)

// smallestPacket has room for a record with the longest answer if every byte is escaped, as by
// drivers that write arguments into the statement's text.
const smallestPacket = 2*(1<<20+64<<10) + 64<<10

// CheckSettings refuses a server with an unusable clock or packet size, and warns about settings
// that can lose answered calls.
func (m mysql) CheckSettings(ctx context.Context) error {
	return m.ReadTables(ctx, OneRow, func(ctx context.Context, db sqlkit.Execer) error {
		var before, after string
		var autocommit, slept int
		var packet int64
		if err := db.QueryRowContext(ctx, `SELECT @@autocommit`).Scan(&autocommit); err != nil {
			return err
		}
		if autocommit == 0 {
			return errTransacts
		}
		// SYSDATE returns the time of its evaluation, unless the server is configured otherwise.
		err := db.QueryRowContext(ctx, `SELECT CAST(SYSDATE(6) AS CHAR), SLEEP(0.002), CAST(SYSDATE(6) AS CHAR)`).Scan(&before, &slept, &after)
		if err == nil {
			err = db.QueryRowContext(ctx, `SELECT @@max_allowed_packet`).Scan(&packet)
		}
		switch {
		case err != nil:
			return err
		case before == after:
			return StateError("sqlstore: the server runs with sysdate-is-now, so that it tells no time after a wait for a lock; leave that option out")
		case packet < smallestPacket:
			return StateError(fmt.Sprintf("sqlstore: the server's max_allowed_packet is %d, too small for a record with a long answer; set it to 16M (at least %d)", packet, smallestPacket))
		}
		return m.db.warnOfLosses(ctx, db)
	})
}

// CheckDurability also checks whether replicas may take over without the last commits. Without a
// binary log there are no replicas. With one, keeps requires that commits wait for a replica:
// seeing who reads the log needs rights that an application seldom has.
func (m mysql) CheckDurability(ctx context.Context) error {
	return m.ReadTables(ctx, OneRow, func(ctx context.Context, db sqlkit.Execer) error {
		if err := m.db.refuseLosses(ctx, db); err != nil {
			return err
		}
		var binlog int
		var waits bool
		err := db.QueryRowContext(ctx, `SELECT @@log_bin`).Scan(&binlog)
		if err == nil && binlog != 0 {
			waits, err = waitsForReplica(ctx, db)
		}
		if err != nil {
			return err
		}
		if binlog != 0 && !waits {
			return StateError("sqlstore: the server has a binary log, and commits do not wait until a " +
				"replica has them: a failover loses the last ones; turn semi-synchronous replication " +
				"on, or the binary log off if there is no replica")
		}
		return nil
	})
}

// waitsForReplica reports whether commits are currently semi-synchronous. MariaDB says master,
// newer MySQL servers say source.
func waitsForReplica(ctx context.Context, db sqlkit.Execer) (bool, error) {
	rows, err := db.QueryContext(ctx, `SHOW GLOBAL STATUS WHERE variable_name IN `+
		`('Rpl_semi_sync_master_status', 'Rpl_semi_sync_source_status') AND value = 'ON'`)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	return rows.Next(), rows.Err()
}

// MigrateTables lets one process at a time migrate, and refuses tables with an engine without
// transactions.
func (m mysql) MigrateTables(ctx context.Context, limit time.Duration, f func(context.Context, sqlkit.Execer) error) error {
	wait, cancel := patienceWithin(ctx, limit)
	defer cancel()
	return m.writeWithin(wait, RecordID{}, time.Time{}, func(ctx context.Context, w sqlkit.Execer) (bool, error) {
		return true, m.migrateAlone(ctx, wait, w, f)
	})
}

func (m mysql) migrateAlone(ctx context.Context, wait Patience, w sqlkit.Execer, f func(context.Context, sqlkit.Execer) error) error {
	locked, err := sqlkit.LockMigration(ctx, w, dbtx.MySQL, m.db.Table, time.Duration(wait.millisLeft())*time.Millisecond*7/8)
	if err != nil {
		return err
	}
	if !locked {
		return StateError(fmt.Sprintf("sqlstore: another process migrates the table %s all the time (GET_LOCK), nothing was changed; try again", m.db.Table))
	}
	if err = m.checkEngines(ctx, w); err == nil {
		err = f(ctx, w)
	}
	return cmp.Or(err, sqlkit.UnlockMigration(context.WithoutCancel(ctx), w, dbtx.MySQL, m.db.Table))
}

// checkEngines checks the engine of the existing tables.
func (m mysql) checkEngines(ctx context.Context, w sqlkit.Execer) error {
	rows, err := w.QueryContext(ctx, `SELECT table_name, coalesce(engine, '') FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN (?, ?, ?)`,
		m.db.Table, m.db.Table+"_limits", m.db.Table+"_meta")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name, engine string
		if err := rows.Scan(&name, &engine); err != nil {
			return err
		}
		if !strings.EqualFold(engine, "InnoDB") {
			return StateError(fmt.Sprintf("sqlstore: the table %s is of the engine %q, which has no transactions, nothing was changed; ALTER TABLE %s ENGINE = InnoDB", name, engine, name))
		}
	}
	return rows.Err()
}

// Error numbers of MySQL and MariaDB.
const (
	numberTooMany       = 1040
	numberNoDatabase    = 1046
	numberDuplicate     = 1062
	numberShutdown      = 1053
	numberSyntax        = 1064
	numberNoTable       = 1146
	numberLockWait      = 1205
	numberDeadlock      = 1213
	numberNoVariable    = 1193
	numberSnapshot      = 1020 // MariaDB: the row was changed after the transaction's snapshot
	numberWrongValue    = 1231
	numberNoSavepoint   = 1305
	numberInterrupted   = 1317
	numberInTransaction = 1568
	numberKilled        = 1927 // MariaDB
	numberStatementTime = 1969 // MariaDB: max_statement_time
	numberExecutionTime = 3024 // MySQL: max_execution_time
	numberSessionKilled = 3169 // MySQL
	numberNoWait        = 3572 // MySQL: NOWAIT; MariaDB says numberLockWait
	numberNoRight       = 1142
	numberIdle          = 4031 // MySQL: wait_timeout
)

const mysqlReadOnly = "the server can only be read, and nothing was changed: it is a replica, or read_only is on; connect to the primary. " +
	"Where the session itself is set to read only (transaction_read_only), all calls work but the one that makes the tables"

const mysqlNoRight = "this user lacks a right, and nothing was changed; Migrate needs CREATE on the database where the tables are not there yet, and all calls " +
	"need SELECT, INSERT, UPDATE and DELETE on them: as an administrator, GRANT SELECT, INSERT, UPDATE, DELETE ON database.table TO the user, for each"

// mysqlAdvice says what an error number means and what to do.
var mysqlAdvice = map[uint16]string{
	1021:             "the server's disk is full, and nothing was written; make room",
	1114:             "the table is full, and nothing was written: the server's disk is, or a limit on its table space (innodb_data_file_path) is reached; make room",
	numberTooMany:    "the server has no connection left; lower the sum of SetMaxOpenConns of all processes, or raise max_connections",
	1203:             "this user has no connection left (max_user_connections); lower the sum of SetMaxOpenConns of all processes",
	1226:             "this user has used up a resource that the server limits for it",
	1044:             "this user may not use the database; look at its name, or GRANT rights on it",
	1045:             "the server refuses the user or the password",
	1698:             "the server refuses the user or the password",
	1049:             "there is no such database; create it, or look at the address",
	numberNoDatabase: "the address names no database; put one after the last slash",
	numberNoRight:    mysqlNoRight,
	1143:             mysqlNoRight,
	1227:             mysqlNoRight,
	1290:             mysqlReadOnly,
	1836:             mysqlReadOnly,
	1792:             mysqlReadOnly,
	1071:             "the server's pages are too small for the keys of the tables; use innodb_page_size=16k, its default",
	1286:             "the server has no InnoDB, which the tables need",
	1153:             "the record is longer than the server's max_allowed_packet, and nothing was written; set max_allowed_packet=16M",
	1665:             "the server logs statements (binlog_format=STATEMENT), which goes with no transaction of this store, and nothing was written; set binlog_format=ROW or MIXED",
	numberShutdown:   "the server is stopping; try again",
	numberKilled:     "the server has ended the connection; try again",
}

// mysqlSyntax has what a store has learned about the words of its server: MariaDB and MySQL differ
// in a few. It learns each from the server's refusal, which changes nothing. Safe for concurrent
// use.
type mysqlSyntax struct {
	// oldNames: the settings of a transaction have their old names (MariaDB before 11.1).
	oldNames atomic.Bool
	// noSetStatement: no setting can be changed for one statement only (MySQL).
	noSetStatement atomic.Bool
}

// Settings of the next transaction only, with their names on MySQL and on older MariaDB. Without
// the two @ they would be those of the session. The server refuses them within a transaction.
const (
	mysqlNext    = `, @@transaction_isolation = 'READ-COMMITTED', @@transaction_read_only = 0`
	mysqlNextOld = `, @@tx_isolation = 'READ-COMMITTED', @@tx_read_only = 0`
)

// beginReadCommitted changes settings of the session, and makes its next transaction READ
// COMMITTED, READ WRITE. The server checks all values before it sets the first.
func (m *mysqlSyntax) beginReadCommitted(ctx context.Context, conn sqlkit.Execer, set string) error {
	for learned, undone := false, false; ; {
		old := m.oldNames.Load()
		next := mysqlNext
		if old {
			next = mysqlNextOld
		}
		_, err := conn.ExecContext(ctx, set+next)
		switch number := dberr.MySQLNumber(err); {
		case number == numberNoVariable && !learned:
			learned = true
			m.oldNames.CompareAndSwap(old, !old)
			continue
		case number == numberInTransaction && !undone:
			// from a previous user of the connection, who did not end it
			undone = true
			if err = sqlkit.Run(ctx, conn, []string{mysqlRollback}); err == nil {
				continue
			}
		}
		return err
	}
}

// mysqlWithin is the beginning of a statement that waits for rows for at most so many seconds, and
// for tables (ALTER TABLE, LOCK TABLES) for at most table. MariaDB.
func mysqlWithin(rows int64, table time.Duration) string {
	return fmt.Sprintf("SET STATEMENT innodb_lock_wait_timeout = %d, lock_wait_timeout = %d FOR ", rows, mysqlTableSeconds(table))
}

// mysqlTableSeconds converts a wait for a table to whole seconds, of which the server accepts a
// year.
func mysqlTableSeconds(wait time.Duration) int64 { return min(mysqlSeconds(wait), 365*24*60*60) }

// mysqlSeconds converts a lock wait to the server's whole seconds.
func mysqlSeconds(wait time.Duration) int64 {
	return max(1, min(int64((wait+time.Second-1)/time.Second), mysqlLongestWait))
}

// mysqlRows reads and writes many rows of MySQL with one statement, which has a placeholder for
// each value.
type mysqlRows struct{ db *Database }

func (l mysqlRows) loadMany(ctx context.Context, w querier, query string, ids []RecordID) (map[RecordID]Loaded, Loaded, error) {
	args := make([]any, len(ids))
	for i := range ids {
		args[i] = ids[i][:]
	}
	return l.db.loadRecords(ctx, w, strings.Replace(query, "(?)", "("+sqlkit.List(len(ids))+")", 1), args...)
}

func (l mysqlRows) writeMany(ctx context.Context, w sqlkit.Execer, made, changed []*Change) error {
	if len(made) > 0 {
		query, args := l.repeatRow(l.db.Statements.Load().InsertRows, made)
		r, err := w.ExecContext(ctx, query, args...)
		if err != nil {
			return err
		}
		if all, err := l.db.Statements.Load().HasInserted(r); err != nil || !all {
			return errMadeMeanwhile
		}
	}
	if len(changed) > 0 {
		query, args := l.repeatRow(l.db.Statements.Load().UpdateRows, changed)
		if _, err := w.ExecContext(ctx, query, args...); err != nil {
			return err
		}
	}
	return nil
}

// repeatRow repeats the single row of values in a statement for all rows.
func (l mysqlRows) repeatRow(query string, rows []*Change) (string, []any) {
	row := "(" + sqlkit.List(len(inserted)) + ")"
	args := make([]any, 0, len(rows)*len(inserted))
	for _, c := range rows {
		args = append(args, InsertArgs(&c.Key, c.ID, &c.Next)...)
	}
	return strings.Replace(query, row, strings.TrimSuffix(strings.Repeat(row+", ", len(rows)), ", "), 1), args
}

// errMadeMeanwhile means that another call has inserted a record that an earlier look did not find.
var errMadeMeanwhile = errors.New("sqlstore: somebody else has made a record that was not there")

// LimitRowWait begins a statement that waits for rows no longer than wait, and for tables no longer
// than LockWait. It is empty on servers that cannot limit a single statement.
func (d *Database) LimitRowWait(wait time.Duration) string {
	if d.Dialect != dbtx.MySQL || d.syntax.noSetStatement.Load() {
		return ""
	}
	return mysqlWithin(mysqlSeconds(wait), d.LockWait)
}

// RefuseRowWait begins a statement that does not wait for rows. MariaDB.
func (d *Database) RefuseRowWait() string { return mysqlWithin(0, d.LockWait) }

// CannotLimit reports whether err means that the server cannot limit a single statement. From then
// on LimitRowWait is empty.
func (d *Database) CannotLimit(err error) bool {
	if dberr.MySQLNumber(err) != numberSyntax {
		return false
	}
	d.syntax.noSetStatement.Store(true)
	return true
}

// EndedRowWait reports whether a server of MySQL has ended the wait for a row.
func EndedRowWait(err error) bool { return dberr.MySQLNumber(err) == numberLockWait }

// MySQLTx is a MySQL transaction on its own connection. Its session is restored when it ends.
type MySQLTx struct {
	dbtx.Tx
	SQLTx *sql.Tx
	conn  *sql.Conn
	// LimitsSession: until claimed is called, the session waits for locks as long as the claim may,
	// since the server cannot limit the wait of one statement.
	LimitsSession bool
}

// OpenMySQL opens a transaction with autocommit off. If the server rolls back on its own (error
// 1213), later statements belong to another transaction. That one never commits, since the record
// is not in it.
func (d *Database) OpenMySQL(ctx context.Context, wait time.Duration) (*MySQLTx, error) {
	conn, err := d.Pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	t := &MySQLTx{conn: conn, LimitsSession: d.syntax.noSetStatement.Load()}
	first := mysqlJoin
	if t.LimitsSession {
		first += `, ` + fmt.Sprintf(mysqlLimit, mysqlSeconds(wait), mysqlTableSeconds(d.LockWait))
	}
	if err = d.syntax.beginReadCommitted(ctx, conn, first); err == nil {
		t.SQLTx, err = conn.BeginTx(ctx, nil)
	}
	if err != nil {
		t.restoreSession(ctx, true)
		return nil, err
	}
	t.Tx = dbtx.SQL(t.SQLTx, dbtx.MySQL)
	return t, nil
}

// RestoreWaits restores the session's own lock wait for the work.
func (t *MySQLTx) RestoreWaits(ctx context.Context) error {
	if !t.LimitsSession {
		return nil
	}
	_, err := t.Exec(ctx, mysqlJoined)
	return err
}

// InsertClaim runs ClaimOnce. It returns the time of the new record, or zero if the
// statement has inserted nothing.
func (t *MySQLTx) InsertClaim(ctx context.Context, query string, args ...any) (now int64, err error) {
	res, err := t.SQLTx.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	if n, err := res.RowsAffected(); n == 0 || err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

func (t *MySQLTx) Commit(ctx context.Context) error {
	err := t.SQLTx.Commit()
	if err == nil {
		t.restoreSession(context.WithoutCancel(ctx), false)
	}
	return err
}

func (t *MySQLTx) Rollback(ctx context.Context) error {
	err := t.SQLTx.Rollback()
	t.restoreSession(ctx, true)
	return err
}

// restoreSession restores the session. Turning autocommit on commits an open transaction, so that
// is rolled back first. A connection that does not answer is discarded.
func (t *MySQLTx) restoreSession(ctx context.Context, open bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Slack)
	defer cancel()
	var last []string
	if open {
		last = append(last, mysqlRollback)
	}
	leave := mysqlLeft
	if t.LimitsSession {
		leave += `, ` + mysqlNoLimit
	}
	if err := sqlkit.Run(ctx, t.conn, append(last, leave)); err != nil && !errors.Is(err, sql.ErrConnDone) {
		sqlkit.Discard(t.conn)
		return
	}
	_ = t.conn.Close()
}
