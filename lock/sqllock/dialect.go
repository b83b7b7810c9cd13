package sqllock

import (
	"context"
	"strings"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/lock"
)

// queries are the statements of a dialect. Each is a transaction of its own.
type queries struct {
	// Arguments name, owner, lease: acquires the lock if it is free. On PostgreSQL and SQLite it
	// then returns the fence.
	acquire    string
	heldFence  string // name, owner: the fence, if the owner has the lock; MySQL only
	timeLeft   string // name: the time until the lease ends
	extend     string // lease, name, owner
	release    string // name, owner
	raiseFence string // name, owner: a new fence, whichever owner had the last one
	sweep      string // age
	// name, limit: name, fence and time left of the locks that are held, after that name
	list string
}

// queryExpander returns a function that makes a statement of a text. {t} is the table, {until} the
// column of that name, {now} the clock, {most} the function for the larger value, {empty} no bytes.
func queryExpander(d Dialect, table string) func(text string) string {
	r := strings.NewReplacer(
		"{t}", sqlkit.Quote(d, table), "{until}", sqlkit.Quote(d, "until"), "{empty}", sqlkit.Empty(d),
		"{now}", sqlkit.Choose(d, sqlkit.SQLiteClock, sqlkit.PostgresClock, sqlkit.MySQLStatementClock),
		"{most}", sqlkit.Choose(d, "max", "greatest", "greatest"),
	)
	return func(text string) string { return sqlkit.Placeholders(d, r.Replace(text)) }
}

// queriesFor returns the statements. They use the database's clock: on PostgreSQL the time when the
// row is locked, on SQLite the time when the file is locked. On MySQL it is the time when the
// statement began, since functions that give a later time depend on the session's time zone. There,
// a wait for the row makes a lease shorter by that time. The caller counts from before the call, so
// this does not matter to it, and it never makes a held lock look free.
//
// MySQL assigns columns from left to right, and a later assignment sees the earlier ones. It counts
// only changed rows, so an extension adds at least a microsecond.
func queriesFor(d Dialect, table string) queries {
	sql := queryExpander(d, table)
	q := queries{
		timeLeft: sql(`SELECT CASE WHEN owner = {empty} THEN 0 ELSE {until} - {now} END FROM {t} WHERE name = ?`),
		extend:   sql(`UPDATE {t} SET {until} = {most}({until} + 1, {now} + ?) WHERE name = ? AND owner = ?`),
		release:  sql(`UPDATE {t} SET {until} = {now}, owner = {empty} WHERE name = ? AND owner = ?`),
		list: sql(`SELECT name, fence, {until} - {now} FROM
			(SELECT name, fence, owner, {until} FROM {t} WHERE {until} > (SELECT {now}) ORDER BY {until} LIMIT 100000) held
			WHERE owner <> {empty} AND name > ? ORDER BY name LIMIT ?`),
		sweep: sql(`DELETE FROM {t} WHERE name IN (SELECT name FROM {t} WHERE {until} < {now} - ? ORDER BY {until} LIMIT 1000)`),
	}
	switch d {
	case PostgreSQL:
		q.sweep = strings.TrimSuffix(q.sweep, ")") + " FOR UPDATE SKIP LOCKED)"
	case MySQL:
		q.sweep = sql(`DELETE FROM {t} WHERE {until} < {now} - ? ORDER BY {until} LIMIT 1000`)
		q.acquire = sql(`INSERT INTO {t} (name, owner, fence, {until}) VALUES (?, ?, {now}, {now} + ?) ON DUPLICATE KEY UPDATE
			fence = CASE WHEN owner = VALUES(owner) AND {until} > {now} THEN fence
				WHEN owner IN ({empty}, VALUES(owner)) OR {until} <= {now} THEN greatest(fence + 1, {now}) ELSE fence END,
			owner = CASE WHEN owner IN ({empty}, VALUES(owner)) OR {until} <= {now} THEN VALUES(owner) ELSE owner END,
			{until} = CASE WHEN owner = VALUES(owner) THEN greatest({until}, VALUES({until})) ELSE {until} END`)
		q.heldFence = sql(`SELECT fence FROM {t} WHERE name = ? AND owner = ? AND {until} > {now}`)
		q.raiseFence = sql(`INSERT INTO {t} (name, owner, fence, {until}) VALUES (?, ?, {now}, {now} + ?) ON DUPLICATE KEY UPDATE
			fence = greatest(fence + 1, {now}), owner = VALUES(owner), {until} = VALUES({until})`)
		return q
	}
	insert := `INSERT INTO {t} AS l (name, owner, fence, {until}) VALUES (?, ?, {now}, {now} + ?) ON CONFLICT (name) DO UPDATE SET `
	q.acquire = sql(insert + `owner = excluded.owner, {until} = {most}(l.until, excluded.until),
		fence = CASE WHEN l.owner = excluded.owner AND l.until > {now} THEN l.fence ELSE {most}(l.fence + 1, {now}) END
		WHERE l.owner IN ({empty}, excluded.owner) OR l.until <= {now} RETURNING fence`)
	q.raiseFence = sql(insert + `owner = excluded.owner, {until} = excluded.until, fence = {most}(l.fence + 1, {now}) RETURNING fence`)
	return q
}

// queryFence runs acquire or raiseFence, and returns the fence. It returns sql.ErrNoRows if another
// owner has the lock. MySQL needs a second statement for the fence.
func (q queries) queryFence(ctx context.Context, db sqlkit.Execer, query string, r lock.Request) (fence int64, err error) {
	args := []any{[]byte(r.Name), r.Owner[:], r.Lease.Microseconds()}
	if q.heldFence == "" {
		err = db.QueryRowContext(ctx, query, args...).Scan(&fence)
		return fence, err
	}
	if _, err = db.ExecContext(ctx, query, args...); err != nil {
		return 0, err
	}
	err = db.QueryRowContext(ctx, q.heldFence, args[:2]...).Scan(&fence)
	return fence, err
}
