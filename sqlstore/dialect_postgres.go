package sqlstore

import (
	_ "embed" // the schema
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/dberr"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

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

func postgresQueries(schema, table string) queries {
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
	q := queries{
		newest: newest, table: t,
		schema:      sqlkit.Statements(postgresSchema, DefaultTable, table),
		version:     `SELECT version FROM ` + meta + ` WHERE id = 1`,
		exists:      sqlkit.TableExists(PostgreSQL, table+"_meta"),
		touch:       []string{`UPDATE ` + meta + ` SET version = version WHERE id = 1`},
		load:        `SELECT m.version, m.fence_floor, ` + beforeReading + `, ` + selected + `r.answer FROM ` + meta + ` m LEFT JOIN ` + t + ` r ON r.id = ? WHERE m.id = 1`,
		loadToWrite: postgresLocked(t) + `SELECT m.version, m.fence_floor, ` + afterLocking + `, ` + selected + `r.answer FROM ` + meta + ` m LEFT JOIN r ON true WHERE m.id = 1`,
		loadMany: many(`OFFSET 0`) + `SELECT m.version, m.fence_floor, ` + beforeReading + `, r.id, ` + selected + `r.answer
			FROM ` + meta + ` m LEFT JOIN r ON true WHERE m.id = 1`,
		loadManyToWrite: many(`FOR UPDATE SKIP LOCKED`) + `SELECT m.version, m.fence_floor, ` + afterLocking + `, r.id, ` + selected + `r.answer
			FROM ` + meta + ` m LEFT JOIN r ON true WHERE m.id = 1`,
		putMany:   insertMany + `UPDATE SET ` + strings.Join(excluded, ", "),
		makeMany:  insertMany + `NOTHING RETURNING id`,
		finish:    finishing(t),
		finishOne: `WITH done AS (` + finishing(t) + ` RETURNING 1) SELECT 1 / count(*) FROM done`,
		put:       updating(t),
		make:      `INSERT INTO ` + t + ` (` + columns + `) VALUES (` + sqlkit.List(len(inserted)) + `) ON CONFLICT (id) DO NOTHING`,
		made:      byCount,
		// The wait is limited for this one statement only: the outer SELECT is evaluated last.
		claimWithin: `WITH s AS MATERIALIZED (SELECT current_setting('lock_timeout') AS was, set_config('lock_timeout', ?, true) AS held, ` + afterLocking + ` AS now),
			made AS (INSERT INTO ` + t + ` (id, parts, owner, data, state, fence, lease_end, expires, updated)
			SELECT ?::bytea, ?::bytea, ?::bytea, ?::bytea, 2, greatest(m.fence_floor + 1, s.now), s.now + ?::bigint, 0, s.now
			FROM ` + meta + ` m, s WHERE m.id = 1 AND m.version = ` + strconv.Itoa(newest) + ` ON CONFLICT (id) DO NOTHING RETURNING fence, updated)
			SELECT made.fence, made.updated, set_config('lock_timeout', s.was, true) FROM s LEFT JOIN made ON true`,
		limit:    `SELECT current_setting('lock_timeout'), set_config('lock_timeout', ?, true)`,
		held:     func(err error) bool { return dberr.SQLState(err) == stateLockTimeout },
		confirm:  `UPDATE ` + t + ` SET updated = updated WHERE id = ?`,
		tell:     `SELECT count(pg_notify(?, message)) FROM unnest(?::text[]) AS message`,
		list:     `SELECT r.id, r.parts, ` + selected + `NULL::bytea FROM ` + t + ` r WHERE (r.expires = 0 OR r.expires > ?)`,
		contains: `position(?::bytea in r.parts) > 0`,
		// Work that has left the transaction of its claim is in one that began after the claim.
		left:     `SELECT (extract(epoch FROM now()) * 1000000)::bigint > $1::bigint`,
		leftAt:   true,
		numbered: sqlkit.Numbered,
	}
	q.postgresListing(in, table, t)
	q.postgresSweep(t, meta)
	q.postgresUsage(meta, in+`"`+table+`_limits"`)
	q.loadToJoin, q.makeToJoin = sqlkit.Numbered(q.loadToWrite), sqlkit.Numbered(q.make)
	for _, statement := range []*string{
		&q.finish, &q.finishOne, &q.claimWithin, &q.tell, &q.confirm, &q.limit, &q.loadMany, &q.loadManyToWrite, &q.putMany, &q.makeMany, &q.load, &q.loadToWrite, &q.put, &q.make, &q.expired, &q.removeMany, &q.raise,
		&q.loadUsage, &q.loadUsageToWrite, &q.putUsage, &q.makeUsage, &q.dropUsage, &q.expiredUsage, &q.removeUsage,
	} {
		*statement = sqlkit.Numbered(*statement)
	}
	return q
}

// postgresListing adds the index of Options.Listing. IF NOT EXISTS alone would wait for writers,
// and is content with an index that is not valid.
func (q *queries) postgresListing(in, table, t string) {
	// Not pg_table_is_visible: a temporary table of the session may have the name.
	q.where = `SELECT n.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relname = '` + table + `' AND c.relpersistence <> 't' AND n.nspname = ANY (current_schemas(false))
		ORDER BY array_position(current_schemas(false), n.nspname) LIMIT 1`
	index := `"` + table + `_listing"`
	// Not by its name alone: another schema may have an index of that name.
	named := `SELECT count(*) FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
		WHERE i.indrelid = to_regclass('` + t + `') AND c.relname = '` + table + `_listing' AND `
	q.hasIndex = named + `i.indisvalid AND i.indpred IS NULL AND pg_get_indexdef(i.indexrelid, 1, true) = 'parts' AND pg_get_indexdef(i.indexrelid) LIKE '% USING btree %'`
	q.badIndex = named + `NOT i.indisvalid`
	q.otherIndex = `SELECT count(*) FROM pg_catalog.pg_class c WHERE c.relname = '` + table + `_listing'
		AND c.relnamespace = (SELECT o.relnamespace FROM pg_catalog.pg_class o WHERE o.oid = to_regclass('` + t + `'))`
	q.renameOther = `ALTER INDEX ` + in + index + ` RENAME TO "` + table + `_listing_other"`
	q.dropBad = `DROP INDEX CONCURRENTLY ` + in + index
	q.indexKeys = `CREATE INDEX IF NOT EXISTS ` + index + ` ON ` + t + ` (parts)`
	q.indexOnline = `CREATE INDEX CONCURRENTLY IF NOT EXISTS ` + index + ` ON ` + t + ` (parts)`
}

// postgresLocked reads a row as it is after its lock was taken: a row that is locked in a WITH is
// read first, and the outer SELECT is evaluated after that.
func postgresLocked(table string) string {
	return `WITH r AS (SELECT * FROM ` + table + ` WHERE id = ? FOR UPDATE) `
}

// postgresSweep sets the statements that remove expired records.
func (q *queries) postgresSweep(t, meta string) {
	q.expired = `SELECT id FROM ` + t + ` WHERE expires <> 0 AND expires <= ? ORDER BY expires LIMIT ?`
	// A row that another transaction has locked is being claimed again or removed there.
	q.removeMany = `WITH old AS (SELECT id FROM ` + t + ` WHERE expires <> 0 AND expires <= ? ORDER BY expires LIMIT ? FOR UPDATE SKIP LOCKED),
		gone AS (DELETE FROM ` + t + ` d USING old WHERE d.id = old.id RETURNING d.fence) SELECT count(*), coalesce(max(fence), 0) FROM gone`
	q.floor = `SELECT fence_floor FROM ` + meta + ` WHERE id = 1`
	q.raise = `UPDATE ` + meta + ` SET fence_floor = greatest(fence_floor, ?) WHERE id = 1`
}

// postgresUsage sets the statements for the counts of tenants.
func (q *queries) postgresUsage(meta, counts string) {
	insert := `INSERT INTO ` + counts + ` (id, namespace, tenant, expires, counts) VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO `
	q.loadUsage = `SELECT m.version, ` + beforeReading + `, l.counts FROM ` + meta + ` m LEFT JOIN ` + counts + ` l ON l.id = ? WHERE m.id = 1`
	q.loadUsageToWrite = postgresLocked(counts) + `SELECT m.version, ` + afterLocking + `, r.counts FROM ` + meta + ` m LEFT JOIN r ON true WHERE m.id = 1`
	q.putUsage = insert + `UPDATE SET expires = excluded.expires, counts = excluded.counts`
	q.makeUsage = insert + `NOTHING`
	q.dropUsage = `DELETE FROM ` + counts + ` WHERE id = ?`
	q.expiredUsage = `SELECT count(*) FROM (SELECT 1 FROM ` + counts + ` WHERE expires <= ? LIMIT 1) AS found`
	q.removeUsage = `WITH old AS (SELECT id FROM ` + counts + ` WHERE expires <= ? LIMIT ? FOR UPDATE SKIP LOCKED)
		DELETE FROM ` + counts + ` d USING old WHERE d.id = old.id`
}

// insertedTypes are the types of inserted.
var insertedTypes = []string{"bytea", "bytea", "bytea", "bigint", "smallint", "bigint", "bigint", "bigint", "bytea", "bytea"}

// arrayPlaces returns the placeholders for the columns of many rows.
func arrayPlaces() string {
	return "?::" + strings.Join(insertedTypes, "[], ?::") + "[]"
}

// lockTimeout returns a wait as the value of the setting, at least 1: zero would mean for ever.
func lockTimeout(wait time.Duration) string {
	return strconv.FormatInt(max(1, min(wait.Milliseconds(), math.MaxInt32)), 10)
}

// beginning opens a transaction that does not depend on the session's defaults. It also ends on the
// server if its client never comes back: neither a lock wait, nor a statement, nor a client that
// hangs can hold a row for long. It is one message.
func beginning(lock, statement, idle int64) string {
	return fmt.Sprintf("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = %d; SET LOCAL statement_timeout = %d; "+
		"SET LOCAL idle_in_transaction_session_timeout = %d", lock, statement, idle)
}

// committing commits, unless it reaches the server after notAfter: then a division by zero ends the
// message. A plain COMMIT would be carried out whenever it arrives.
func committing(notAfter int64) string {
	if notAfter == 0 {
		return "COMMIT"
	}
	return fmt.Sprintf("SELECT 1 / (%s <= %d)::int; COMMIT", afterLocking, notAfter)
}
