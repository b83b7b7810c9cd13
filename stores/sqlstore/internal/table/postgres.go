package table

import (
	"context"
	"database/sql"
	_ "embed" // the schema
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/dberr"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// postgres is the backend for PostgreSQL.
type postgres struct{ server }

// postgresKind has the statements for PostgreSQL. No setting outlives a transaction.
type postgresKind struct{ table string }

func (postgresKind) beginReads(_ context.Context, conn *sql.Conn) (readSession, error) {
	return readSession{execer: conn}, nil
}

func (postgresKind) endReads(_ context.Context, _ *sql.Conn, _ readSession, err error) (again bool, _ error) {
	return false, err
}

// beginOn sends one message. Neither a lock wait, nor a statement, nor a client that hangs can hold
// a row for long.
func (postgresKind) beginOn(call context.Context, conn *sql.Conn, wait Patience) (within context.Context, err error) {
	lock := wait.millisLeft()
	statement := lock + Slack.Milliseconds()
	if wait.lockLimit > 0 {
		// many calls together: if they are slow, they should not be made again one by one
		statement = (wait.Limit + Slack).Milliseconds()
	}
	_, err = conn.ExecContext(call, fmt.Sprintf("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = %d; SET LOCAL statement_timeout = %d; "+
		"SET LOCAL idle_in_transaction_session_timeout = %d", lock, statement, statement+4*Slack.Milliseconds()))
	return call, err
}

// commitOn commits, unless it reaches the server after notAfter: then a division by zero ends the
// message. A plain COMMIT would be carried out whenever it arrives.
func (postgresKind) commitOn(call context.Context, conn *sql.Conn, notAfter time.Time) error {
	commit := "COMMIT"
	if !notAfter.IsZero() {
		commit = fmt.Sprintf("SELECT 1 / (%s <= %d)::int; COMMIT", afterLocking, notAfter.UnixMicro())
	}
	_, err := conn.ExecContext(call, commit)
	if dberr.SQLState(err) == stateDivision {
		return storeapi.ErrTooLate
	}
	return err
}

func (postgresKind) rollBackOn(call context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(call, "ROLLBACK")
	return err
}

func (postgresKind) classifyDriverError(err error) ErrorClass {
	switch state := dberr.SQLState(err); {
	case state == stateSerialization, state == stateDeadlock:
		return Blocked
	case state == stateLockTimeout, state == stateCanceled:
		return lockTimedOut
	case state == "", strings.HasPrefix(state, "08"), strings.HasPrefix(state, "57P0"), state == "25P03":
		return OnlyLost
	}
	return finalError
}

func (p postgresKind) adviceFor(err error) (text string, noTable bool) {
	state := dberr.SQLState(err)
	if state == stateNoTable && strings.Contains(err.Error(), p.table) {
		return "", true
	}
	if state == stateNotSupported && strings.Contains(err.Error(), "recovery") {
		state = stateReadOnly // a writing transaction on a replica
	}
	if state == stateProtocol && !strings.Contains(err.Error(), "prepared statement") {
		return "", false // PgBouncer has this code also for a client that has waited too long
	}
	return postgresAdvice[state], false
}

// postgresSchema creates version 1, with the default names. It is frozen: a change needs a new
// version and a step in Migrate.
//
//go:embed schema/postgres_v1.sql
var postgresSchema string

// The server's clock in microseconds. now() would return the start of the transaction, which is
// before a wait for a lock.
const (
	// beforeReading is the start of the statement: what is seen without a lock was true then or
	// later.
	beforeReading = sqlkit.PostgresStatementClock
	// afterLocking is the time at which a row is returned, after its lock was taken.
	afterLocking = sqlkit.PostgresClock
)

func postgresStatements(schema, table string) Statements {
	const newest = 1
	in := withinSchema(`"`, schema)
	t, meta := in+`"`+table+`"`, in+`"`+table+`_meta"`
	excluded := make([]string, len(stored))
	for i, c := range stored {
		excluded[i] = c + " = excluded." + c
	}
	// Each id is looked up separately: for a join, the server keeps a plan that fits the size of
	// the table when it first sees the statement.
	many := func(lock string) string {
		return `WITH r AS (SELECT found.* FROM unnest(?::bytea[]) AS wanted (id) CROSS JOIN LATERAL
			(SELECT * FROM ` + t + ` t WHERE t.id = wanted.id ` + lock + `) AS found) `
	}
	columns := strings.Join(inserted, ", ")
	insertMany := `INSERT INTO ` + t + ` (` + columns + `) SELECT ` + columns + ` FROM unnest(` + arrayPlaces() + `) AS v (` + columns + `) ON CONFLICT (id) DO `
	q := Statements{
		SchemaVersion: newest, TableName: t,
		CreateTables: sqlkit.Statements(postgresSchema, DefaultTable, table),
		LoadVersion:  `SELECT version FROM ` + meta + ` WHERE id = 1`,
		CountTables:  sqlkit.TableExists(dbtx.PostgreSQL, table+"_meta"),
		TouchTables:  []string{`UPDATE ` + meta + ` SET version = version WHERE id = 1`},
		LoadRow:      `SELECT m.version, m.fence_floor, ` + beforeReading + `, ` + selected + `r.answer FROM ` + meta + ` m LEFT JOIN ` + t + ` r ON r.id = ? WHERE m.id = 1`,
		LockRow:      postgresLocked(t) + `SELECT m.version, m.fence_floor, ` + afterLocking + `, ` + selected + `r.answer FROM ` + meta + ` m LEFT JOIN r ON true WHERE m.id = 1`,
		LoadRows: many(`OFFSET 0`) + `SELECT m.version, m.fence_floor, ` + beforeReading + `, r.id, ` + selected + `r.answer
			FROM ` + meta + ` m LEFT JOIN r ON true WHERE m.id = 1`,
		LockRows: many(`FOR UPDATE SKIP LOCKED`) + `SELECT m.version, m.fence_floor, ` + afterLocking + `, r.id, ` + selected + `r.answer
			FROM ` + meta + ` m LEFT JOIN r ON true WHERE m.id = 1`,
		UpdateRows:    insertMany + `UPDATE SET ` + strings.Join(excluded, ", "),
		InsertRows:    insertMany + `NOTHING RETURNING id`,
		FinishAttempt: finishStatement(t),
		FinishOrFail:  `WITH done AS (` + finishStatement(t) + ` RETURNING 1) SELECT 1 / count(*) FROM done`,
		UpdateRow:     updateStatement(t),
		InsertRow:     `INSERT INTO ` + t + ` (` + columns + `) VALUES (` + sqlkit.List(len(inserted)) + `) ON CONFLICT (id) DO NOTHING`,
		HasInserted:   InsertedByCount,
		TellsInserted: true,
		// The wait is limited for this one statement only: the outer SELECT is evaluated last.
		ClaimWithin: `WITH s AS MATERIALIZED (SELECT current_setting('lock_timeout') AS was, set_config('lock_timeout', ?, true) AS held, ` + afterLocking + ` AS now),
			made AS (INSERT INTO ` + t + ` (id, parts, owner, data, state, fence, lease_end, expires, updated)
			SELECT ?::bytea, ?::bytea, ?::bytea, ?::bytea, 2, greatest(m.fence_floor + 1, s.now), s.now + ?::bigint, 0, s.now
			FROM ` + meta + ` m, s WHERE m.id = 1 AND m.version = ` + strconv.Itoa(newest) + ` ON CONFLICT (id) DO NOTHING RETURNING fence, updated)
			SELECT made.fence, made.updated, set_config('lock_timeout', s.was, true) FROM s LEFT JOIN made ON true`,
		LimitWait:    `SELECT current_setting('lock_timeout'), set_config('lock_timeout', ?, true)`,
		IsHeld:       func(err error) bool { return dberr.SQLState(err) == stateLockTimeout },
		ConfirmRow:   `UPDATE ` + t + ` SET updated = updated WHERE id = ?`,
		NotifyEnds:   `SELECT count(pg_notify(?, message)) FROM unnest(?::text[]) AS message`,
		ListRecords:  `SELECT r.id, r.parts, ` + selected + `NULL::bytea FROM ` + t + ` r WHERE (r.expires = 0 OR r.expires > ?)`,
		PartsContain: `position(?::bytea in r.parts) > 0`,
		// Work that has left the transaction of its claim is in one that began after the claim.
		HasLeft:      `SELECT (extract(epoch FROM now()) * 1000000)::bigint > $1::bigint`,
		HasLeftSince: true,
		Numbered:     sqlkit.Numbered,
	}
	q.postgresListing(in, table, t)
	q.postgresSweep(t, meta)
	q.postgresUsage(meta, in+`"`+table+`_limits"`)
	q.LockToJoin, q.InsertToJoin = sqlkit.Numbered(q.LockRow), sqlkit.Numbered(q.InsertRow)
	for _, statement := range []*string{
		&q.FinishAttempt, &q.FinishOrFail, &q.ClaimWithin, &q.NotifyEnds, &q.ConfirmRow, &q.LimitWait, &q.LoadRows, &q.LockRows, &q.UpdateRows, &q.InsertRows, &q.LoadRow, &q.LockRow, &q.UpdateRow, &q.InsertRow, &q.FindExpired, &q.RemoveExpired, &q.RaiseFloor,
		&q.LoadUsage, &q.LockUsage, &q.UpdateUsage, &q.InsertUsage, &q.DeleteUsage, &q.FindExpiredUsage, &q.RemoveExpiredUsage,
	} {
		*statement = sqlkit.Numbered(*statement)
	}
	return q
}

// postgresListing adds the index of Options.Listing. IF NOT EXISTS alone would wait for writers,
// and is content with an index that is not valid.
func (q *Statements) postgresListing(in, table, t string) {
	// Not pg_table_is_visible: a temporary table of the session may have the name.
	q.FindSchema = `SELECT n.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relname = '` + table + `' AND c.relpersistence <> 't' AND n.nspname = ANY (current_schemas(false))
		ORDER BY array_position(current_schemas(false), n.nspname) LIMIT 1`
	index := `"` + table + `_listing"`
	// Not by its name alone: another schema may have an index of that name.
	named := `SELECT count(*) FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
		WHERE i.indrelid = to_regclass('` + t + `') AND c.relname = '` + table + `_listing' AND `
	q.CountIndex = named + `i.indisvalid AND i.indpred IS NULL AND pg_get_indexdef(i.indexrelid, 1, true) = 'parts' AND pg_get_indexdef(i.indexrelid) LIKE '% USING btree %'`
	q.CountBadIndex = named + `NOT i.indisvalid`
	q.CountOtherIndex = `SELECT count(*) FROM pg_catalog.pg_class c WHERE c.relname = '` + table + `_listing'
		AND c.relnamespace = (SELECT o.relnamespace FROM pg_catalog.pg_class o WHERE o.oid = to_regclass('` + t + `'))`
	q.RenameOtherIndex = `ALTER INDEX ` + in + index + ` RENAME TO "` + table + `_listing_other"`
	q.DropBadIndex = `DROP INDEX CONCURRENTLY ` + in + index
	q.CreateIndex = `CREATE INDEX IF NOT EXISTS ` + index + ` ON ` + t + ` (parts)`
	q.CreateIndexOnline = `CREATE INDEX CONCURRENTLY IF NOT EXISTS ` + index + ` ON ` + t + ` (parts)`
}

// postgresLocked reads a row as it is after its lock was taken: a row that is locked in a WITH is
// read first, and the outer SELECT is evaluated after that.
func postgresLocked(table string) string {
	return `WITH r AS (SELECT * FROM ` + table + ` WHERE id = ? FOR UPDATE) `
}

// postgresSweep sets the statements that remove expired records.
func (q *Statements) postgresSweep(t, meta string) {
	q.FindExpired = `SELECT id FROM ` + t + ` WHERE expires <> 0 AND expires <= ? ORDER BY expires LIMIT ?`
	// A row that another transaction has locked is being claimed again or removed there.
	q.RemoveExpired = `WITH old AS (SELECT id FROM ` + t + ` WHERE expires <> 0 AND expires <= ? ORDER BY expires LIMIT ? FOR UPDATE SKIP LOCKED),
		gone AS (DELETE FROM ` + t + ` d USING old WHERE d.id = old.id RETURNING d.fence) SELECT count(*), coalesce(max(fence), 0) FROM gone`
	q.LoadFloor = `SELECT fence_floor FROM ` + meta + ` WHERE id = 1`
	q.RaiseFloor = `UPDATE ` + meta + ` SET fence_floor = greatest(fence_floor, ?) WHERE id = 1`
}

// postgresUsage sets the statements for the counts of tenants.
func (q *Statements) postgresUsage(meta, counts string) {
	insert := `INSERT INTO ` + counts + ` (id, namespace, tenant, expires, counts) VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO `
	q.LoadUsage = `SELECT m.version, ` + beforeReading + `, l.counts FROM ` + meta + ` m LEFT JOIN ` + counts + ` l ON l.id = ? WHERE m.id = 1`
	q.LockUsage = postgresLocked(counts) + `SELECT m.version, ` + afterLocking + `, r.counts FROM ` + meta + ` m LEFT JOIN r ON true WHERE m.id = 1`
	q.UpdateUsage = insert + `UPDATE SET expires = excluded.expires, counts = excluded.counts`
	q.InsertUsage = insert + `NOTHING`
	q.DeleteUsage = `DELETE FROM ` + counts + ` WHERE id = ?`
	q.FindExpiredUsage = `SELECT count(*) FROM (SELECT 1 FROM ` + counts + ` WHERE expires <= ? LIMIT 1) AS found`
	q.RemoveExpiredUsage = `WITH old AS (SELECT id FROM ` + counts + ` WHERE expires <= ? LIMIT ? FOR UPDATE SKIP LOCKED)
		DELETE FROM ` + counts + ` d USING old WHERE d.id = old.id`
}

// insertedTypes are the types of inserted.
var insertedTypes = []string{"bytea", "bytea", "bytea", "bigint", "smallint", "bigint", "bigint", "bigint", "bytea", "bytea"}

// arrayPlaces returns the placeholders for the columns of many rows.
func arrayPlaces() string {
	return "?::" + strings.Join(insertedTypes, "[], ?::") + "[]"
}

// LockTimeout returns a wait as the value of the setting, at least 1: zero would mean for ever.
func LockTimeout(wait time.Duration) string {
	return strconv.FormatInt(max(1, min(wait.Milliseconds(), math.MaxInt32)), 10)
}

// CheckSettings warns about settings that can lose answered calls.
func (p postgres) CheckSettings(ctx context.Context) error {
	return p.ReadTables(ctx, OneRow, p.db.warnOfLosses)
}

// CheckDurability also checks for replicas that may take over without the last commits. A user
// without rights can see that there are replicas, but not which.
func (p postgres) CheckDurability(ctx context.Context) error {
	return p.ReadTables(ctx, OneRow, func(ctx context.Context, db sqlkit.Execer) error {
		if err := p.db.refuseLosses(ctx, db); err != nil {
			return err
		}
		var commit, standbys string
		var replicas int
		err := db.QueryRowContext(ctx, `SELECT current_setting('synchronous_commit'), `+
			`current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication)`).
			Scan(&commit, &standbys, &replicas)
		if err != nil {
			return err
		}
		if replicas > 0 && (standbys == "" || commit == "local") {
			return StateError("sqlstore: commits do not wait for replicas, and the server has some: " +
				"a failover loses the last ones; set synchronous_standby_names, and synchronous_commit = on")
		}
		return nil
	})
}

// MigrateTables lets one process at a time migrate, and checks the rights on existing tables, which
// may belong to another user.
func (p postgres) MigrateTables(ctx context.Context, limit time.Duration, f func(context.Context, sqlkit.Execer) error) error {
	wait, cancel := patienceWithin(ctx, limit)
	defer cancel()
	return p.writeWithin(wait, RecordID{}, time.Time{}, func(ctx context.Context, w sqlkit.Execer) (bool, error) {
		return true, p.migrateAlone(ctx, w, f)
	})
}

func (p postgres) migrateAlone(ctx context.Context, w sqlkit.Execer, f func(context.Context, sqlkit.Execer) error) error {
	if p.db.schema != "" { // CREATE INDEX names no schema
		if _, err := w.ExecContext(ctx, `SET LOCAL search_path = "`+p.db.schema+`"`); err != nil {
			return err
		}
	}
	if _, err := sqlkit.LockMigration(ctx, w, dbtx.PostgreSQL, p.db.Table, 0); err != nil {
		return err
	}
	for _, suffix := range []string{"", "_limits", "_meta"} {
		var there, may bool
		name := `"` + p.db.Table + suffix + `"`
		// Each right is checked separately: given a list, has_table_privilege is satisfied by one
		// of them.
		err := w.QueryRowContext(ctx, `SELECT t IS NOT NULL, t IS NULL OR (has_table_privilege(t, 'SELECT') AND has_table_privilege(t, 'UPDATE') AND
			(has_table_privilege(t, 'INSERT') AND has_table_privilege(t, 'DELETE') OR $2)) FROM (SELECT to_regclass($1)::oid AS t) s`,
			name, suffix == "_meta").Scan(&there, &may)
		if err != nil {
			return err
		}
		if there && !may {
			return StateError(fmt.Sprintf("sqlstore: the table %s is there and this user may not use it, nothing was changed; as its owner: "+
				"GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO the user", p.db.Table+suffix, strings.Join([]string{p.db.Table, p.db.Table + "_limits", p.db.Table + "_meta"}, ", ")))
		}
	}
	return f(ctx, w)
}

// postgresRows reads and writes many rows of PostgreSQL with one statement, each column as one
// array. So the server parses the same statement whatever the number of rows.
type postgresRows struct{ db *Database }

func (a postgresRows) loadMany(ctx context.Context, w querier, query string, ids []RecordID) (map[RecordID]Loaded, Loaded, error) {
	var b strings.Builder
	b.Grow(len(ids) * 68)
	for i := range ids {
		b.WriteByte("{,"[min(i, 1)])
		arrayValue(&b, ids[i][:])
	}
	return a.db.loadRecords(ctx, w, query, b.String()+"}")
}

func (a postgresRows) writeMany(ctx context.Context, w sqlkit.Execer, made, changed []*Change) error {
	if len(made) > 0 {
		if err := a.insertMany(ctx, w, made); err != nil {
			return err
		}
		// The insert may have waited for a sweep, which has removed a record and raised the floor.
		var floor int64
		if err := w.QueryRowContext(ctx, a.db.Statements.Load().LoadFloor).Scan(&floor); err != nil {
			return err
		}
		if storeapi.Fence(floor) > made[0].Found.Floor { //nolint:gosec // fences stay below 2^53
			return errMadeMeanwhile
		}
	}
	if len(changed) == 0 {
		return nil
	}
	_, err := w.ExecContext(ctx, a.db.Statements.Load().UpdateRows, arrayArgs(changed)...)
	return err
}

// insertMany marks those changes to be made alone whose record was there.
func (a postgresRows) insertMany(ctx context.Context, w sqlkit.Execer, made []*Change) error {
	rows, err := w.QueryContext(ctx, a.db.Statements.Load().InsertRows, arrayArgs(made)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	there := make(map[RecordID]*Change, len(made))
	for _, c := range made {
		there[c.ID] = c
	}
	for rows.Next() {
		var id []byte
		if err := rows.Scan(&id); err != nil {
			return err
		}
		if len(id) == len(RecordID{}) {
			delete(there, RecordID(id))
		}
	}
	for _, c := range there {
		c.markRecordThere()
	}
	return rows.Err()
}

// arrayArgs returns an array for each column of inserted.
func arrayArgs(rows []*Change) []any {
	columns := make([]strings.Builder, len(inserted))
	for i, c := range rows {
		for j, v := range InsertArgs(&c.Key, c.ID, &c.Next) {
			columns[j].WriteByte("{,"[min(i, 1)])
			arrayValue(&columns[j], v)
		}
	}
	args := make([]any, len(columns))
	for j := range columns {
		args[j] = columns[j].String() + "}"
	}
	return args
}

// arrayValue writes a value in the text format of a PostgreSQL array.
func arrayValue(b *strings.Builder, v any) {
	switch v := v.(type) {
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case []byte:
		b.WriteString(`\\x`)
		_, _ = hex.NewEncoder(b).Write(v)
	default:
		b.WriteString("NULL")
	}
}

// Codes of PostgreSQL (SQLSTATE).
const (
	stateProtocol      = "08P01"
	stateNotSupported  = "0A000"
	stateDivision      = "22012"
	stateReadOnly      = "25006"
	stateNoTransaction = "25P01"
	stateNoSavepoint   = "3B001"
	stateSerialization = "40001"
	stateDeadlock      = "40P01"
	stateNoRight       = "42501"
	stateNoTable       = "42P01"
	stateNoSchema      = "3F000"
	stateNoDatabase    = "3D000"
	stateTooMany       = "53300"
	stateDiskFull      = "53100"
	stateLockTimeout   = "55P03"
	stateCanceled      = "57014"
)

// postgresPooler is about statements that were prepared on another connection of the server.
const postgresPooler = "the server mixes up prepared statements, and nothing was changed: the connections go through a pooler in transaction mode (PgBouncer); " +
	"add default_query_exec_mode=exec to the URL (pgx), or let the pooler keep prepared statements (max_prepared_statements)"

// postgresAdvice says what a code means and what to do.
var postgresAdvice = map[string]string{
	stateReadOnly: "the server can only be read, and nothing was changed: it is a replica, or it is being recovered; connect to the primary " +
		"(target_session_attrs=read-write finds it)",
	stateNoRight: "this user lacks a right, and nothing was changed; Migrate needs CREATE on the schema where the tables are not there yet, and all calls need " +
		"SELECT, INSERT, UPDATE and DELETE on them",
	stateNoDatabase: "there is no such database; create it, or look at the address",
	stateNoSchema:   "there is no schema to make tables in; create one, or set search_path",
	stateTooMany:    "the server has no connection left; lower the sum of SetMaxOpenConns of all processes, or raise max_connections",
	stateDiskFull:   "the server's disk is full, and nothing was written; make room",
	"42P05":         postgresPooler,
	"26000":         postgresPooler,
	stateProtocol:   postgresPooler,
	"28000":         "the server refuses this user; look at the user's name and at pg_hba.conf",
	"28P01":         "the server refuses the password",
	"57P01":         "the server ends its connections; it is stopped or started again",
	"57P02":         "the server has crashed, and recovers by itself",
	"57P03":         "the server is starting or stopping; try again",
}

// FinishedNone reports whether FinishOrFail was refused because there is no such row.
func FinishedNone(err error) bool { return dberr.SQLState(err) == stateDivision }
