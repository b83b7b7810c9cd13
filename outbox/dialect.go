package outbox

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// States of a message in the table.
const (
	statePending   = 0
	stateDead      = 1
	statePublished = 2
)

// queries are the statements of a dialect. Placeholders are ? on SQLite and MySQL, $1 and so on on
// PostgreSQL.
type queries struct {
	now          string
	placeholders func(string) string

	add            string // id, part, hash, topic, key, content type, headers, payload
	version        string
	renew          string // lease, owner
	lockDeal       string // lets one relay at a time deal out partitions
	dropLapsed     string
	dropRelay      string // owner
	register       string // owner, lease
	listRelays     string
	listPartitions string
	claim          string // owner, part, fence
	release        string // part, owner, fence
	partitionWork  string
	heldKeys       func(skipDead bool) string // part, limit
	// part, after; then part, owner, fence, limit
	readBatch     func(skipDead bool, held [][hashSize]byte, after int64) (string, []any)
	stillOwned    string                             // part, owner, fence
	remove        func(seqs []int64) (string, []any) // and part, owner, fence
	markPublished func(seqs []int64) (string, []any) // and part, owner, fence
	// state, wait, attempts, error, seq, part, owner, fence
	markFailed string
	sweep      string // age, limit
	stats      string
	listDead   string // after, limit
	redrive    func(ids []string) (string, []any)
	discard    func(ids []string) (string, []any)
}

// queriesFor returns the statements of an outbox.
func queriesFor(d Dialect, table string) queries {
	t := statementMaker{d, table}
	q := queries{now: sqlkit.StatementClock(d), placeholders: func(query string) string { return sqlkit.Placeholders(d, query) }}
	t.setAddAndRelays(&q)
	t.setReads(&q)
	t.setOutcomes(&q)
	t.setUpkeep(&q)
	return q
}

// statementMaker makes the statements of a dialect for a table.
type statementMaker struct {
	d     Dialect
	table string
}

// sql returns a statement. {x} is the table, {x_parts} a related table, {now} the clock.
func (t statementMaker) sql(query string) string {
	for _, suffix := range []string{"_parts", "_relays", "_meta", ""} {
		query = strings.ReplaceAll(query, "{x"+suffix+"}", sqlkit.Quote(t.d, t.table+suffix))
	}
	return sqlkit.Placeholders(t.d, strings.ReplaceAll(query, "{now}", sqlkit.StatementClock(t.d)))
}

// stillOwnerCondition is the condition that the caller still has the partition: part, owner, fence.
const stillOwnerCondition = ` AND EXISTS (SELECT 1 FROM {x_parts} p WHERE p.part = ? AND p.owner = ? AND p.fence = ?)`

// setAddAndRelays sets the statements that add a message and that deal out partitions.
func (t statementMaker) setAddAndRelays(q *queries) {
	sql, empty := t.sql, sqlkit.Empty(t.d)
	q.add = `INSERT INTO {x} (id, part, key_hash, state, due, attempts, created, changed, topic, msg_key, content_type, headers, last_error, payload)
		VALUES (?, ?, ?, 0, 0, 0, {now}, {now}, ?, ?, ?, ?, ` + empty + `, ?)`
	if t.d != MySQL {
		q.add += ` ON CONFLICT (id) DO NOTHING`
	}
	q.add = sql(q.add)
	q.version = sql(`SELECT version FROM {x_meta} WHERE id = 1`)
	q.renew = sql(`UPDATE {x_relays} SET lease_end = {now} + ? WHERE owner = ? AND lease_end > {now}`)
	q.lockDeal = sql(`UPDATE {x_meta} SET version = version WHERE id = 1`)
	q.dropLapsed = sql(`DELETE FROM {x_relays} WHERE lease_end <= {now}`)
	q.dropRelay = sql(`DELETE FROM {x_relays} WHERE owner = ?`)
	q.register = sql(`INSERT INTO {x_relays} (owner, lease_end) VALUES (?, {now} + ?)`)
	q.listRelays = sql(`SELECT owner FROM {x_relays}`)
	q.listPartitions = sql(`SELECT part, owner, fence FROM {x_parts} ORDER BY part`)
	q.claim = sql(`UPDATE {x_parts} SET owner = ?, fence = fence + 1 WHERE part = ? AND fence = ?`)
	q.release = sql(`UPDATE {x_parts} SET owner = ` + empty + ` WHERE part = ? AND owner = ? AND fence = ?`)
}

// setReads sets the statements that read messages.
func (t statementMaker) setReads(q *queries) {
	sql := t.sql
	q.partitionWork = sql(`SELECT p.part, CASE WHEN EXISTS (SELECT 1 FROM {x} m WHERE m.state = 0 AND m.part = p.part AND m.due <= {now}) THEN 1 ELSE 0 END,
		CASE WHEN EXISTS (SELECT 1 FROM {x_relays} r WHERE r.owner = p.owner AND r.lease_end > {now}) THEN 0 ELSE 1 END FROM {x_parts} p`)
	q.heldKeys = func(skipDead bool) string {
		return sql(`SELECT DISTINCT b.key_hash FROM {x} b WHERE b.part = ? AND ` + t.heldUpCondition(skipDead) + ` LIMIT ?`)
	}
	q.readBatch = t.readBatch
	q.stillOwned = sql(`SELECT count(*) FROM {x_parts} WHERE part = ? AND owner = ? AND fence = ?`)
}

// heldUpCondition is the condition that a message holds up its key: a failed one that waits, and a
// dead one.
func (t statementMaker) heldUpCondition(skipDead bool) string {
	if skipDead {
		return failedCondition(t.d) + ` AND b.state = 0 AND b.due > {now}`
	}
	return failedCondition(t.d) + ` AND (b.state = 1 OR b.due > {now})`
}

func (t statementMaker) readBatch(skipDead bool, held [][hashSize]byte, after int64) (string, []any) {
	before := t.heldUpCondition(skipDead)
	if t.d == PostgreSQL {
		before += ` OFFSET 0` // for each message: a join would read all pending messages
	}
	without, args := hashesOut(t.d, held)
	// A transaction may have committed late, so that its messages are before the position of the
	// pass. They come first of their key. SQLite has one writer, whose commits are in order.
	late := ""
	if after > 0 && t.d != SQLite {
		pending := sqlkit.Choose(t.d, ``, `b.state = 0`, `b.failed = 0 AND b.state = 0`)
		if t.d == PostgreSQL {
			pending += ` OFFSET 0`
		}
		late = ` AND NOT EXISTS (SELECT 1 FROM {x} b WHERE b.key_hash = m.key_hash AND b.seq <= ? AND ` + pending + `)`
		args = append(args, after)
	}
	return t.sql(`SELECT m.seq, m.key_hash, m.id, m.topic, m.msg_key, m.headers, m.content_type, m.created, m.attempts, m.payload FROM {x} m
			WHERE m.state = 0 AND m.part = ? AND m.due <= {now} AND m.seq > ?` + without + late + `
			AND NOT EXISTS (SELECT 1 FROM {x} b WHERE b.key_hash = m.key_hash AND b.seq < m.seq AND ` + before + `)` + stillOwnerCondition + ` ORDER BY m.seq LIMIT ?`), args
}

// setOutcomes sets the statements that store the outcomes of messages.
func (t statementMaker) setOutcomes(q *queries) {
	d, sql := t.d, t.sql
	q.remove = func(seqs []int64) (string, []any) {
		in, args := numbersIn(d, seqs)
		return sql(`DELETE FROM {x} WHERE seq ` + in + stillOwnerCondition), args
	}
	q.markPublished = func(seqs []int64) (string, []any) {
		in, args := numbersIn(d, seqs)
		return sql(`UPDATE {x} SET state = 2, changed = {now} WHERE seq ` + in + stillOwnerCondition), args
	}
	q.markFailed = sql(`UPDATE {x} SET state = ?, due = {now} + ?, attempts = ?, last_error = ?, changed = {now} WHERE state = 0 AND seq = ?` + stillOwnerCondition)
}

// setUpkeep sets the statements that count, list and remove messages.
func (t statementMaker) setUpkeep(q *queries) {
	d, sql := t.d, t.sql
	const old = `state = 2 AND changed < {now} - ? ORDER BY changed LIMIT ?`
	q.sweep = sql(sqlkit.Choose(d,
		`DELETE FROM {x} WHERE seq IN (SELECT seq FROM {x} WHERE `+old+`)`,
		`DELETE FROM {x} WHERE seq = ANY(ARRAY(SELECT seq FROM {x} WHERE `+old+`))`,
		`DELETE FROM {x} WHERE `+old))
	q.stats = sql(`SELECT state, count(*), coalesce(sum(CASE WHEN due > {now} THEN 1 ELSE 0 END), 0), {now} - min(created) FROM {x} WHERE state < 2 GROUP BY state`)
	q.listDead = sql(`SELECT seq, id, topic, msg_key, attempts, created, changed, last_error FROM {x} WHERE state = 1 AND seq > ? ORDER BY seq LIMIT ?`)
	q.redrive = func(ids []string) (string, []any) {
		in, args := textsIn(ids)
		return sql(`UPDATE {x} SET state = 0, due = 0, attempts = 0, changed = {now} WHERE state = 1 AND id ` + in), args
	}
	q.discard = func(ids []string) (string, []any) {
		in, args := textsIn(ids)
		return sql(`DELETE FROM {x} WHERE state = 1 AND id ` + in), args
	}
}

// failedCondition is the condition of the index of failed messages, in the same words.
func failedCondition(d Dialect) string {
	if d == MySQL {
		return `b.failed = 1`
	}
	return `b.due > 0 AND b.state < 2`
}

// numbersIn returns a list. On PostgreSQL it is one value, so that the statement does not depend on
// its length.
func numbersIn(d Dialect, numbers []int64) (string, []any) {
	if d == PostgreSQL {
		texts := make([]string, len(numbers))
		for i, n := range numbers {
			texts[i] = strconv.FormatInt(n, 10)
		}
		return `= ANY(?::bigint[])`, []any{"{" + strings.Join(texts, ",") + "}"}
	}
	args := make([]any, len(numbers))
	for i, n := range numbers {
		args[i] = n
	}
	return sqlkit.In(len(args)), args
}

// hashesOut excludes keys. On PostgreSQL they are one value.
func hashesOut(d Dialect, hashes [][hashSize]byte) (string, []any) {
	if len(hashes) == 0 {
		return "", nil
	}
	if d == PostgreSQL {
		texts := make([]string, len(hashes))
		for i, h := range hashes {
			texts[i] = `"\\x` + hex.EncodeToString(h[:]) + `"`
		}
		return ` AND m.key_hash <> ALL(?::bytea[])`, []any{"{" + strings.Join(texts, ",") + "}"}
	}
	args := make([]any, len(hashes))
	for i, h := range hashes {
		args[i] = h[:]
	}
	return ` AND m.key_hash NOT ` + sqlkit.In(len(args)), args
}

func textsIn(texts []string) (string, []any) {
	args := make([]any, len(texts))
	for i, s := range texts {
		args[i] = []byte(s)
	}
	return sqlkit.In(len(args)), args
}
