package outbox

import (
	"encoding/hex"
	"strconv"
	"strings"
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
	now     string
	numbers func(string) string

	add      string // id, part, hash, topic, key, content type, headers, payload
	version  string
	renew    string // lease, owner
	turn     string // lets one relay at a time deal out partitions
	lapsed   string
	forget   string // owner
	register string // owner, lease
	relays   string
	parts    string
	claim    string // owner, part, fence
	release  string // part, owner, fence
	look     string
	held     func(skipDead bool) string // part, limit
	// part, after; then part, owner, fence, limit
	take   func(skipDead bool, held [][hashSize]byte, after int64) (string, []any)
	holds  string                             // part, owner, fence
	remove func(seqs []int64) (string, []any) // and part, owner, fence
	retain func(seqs []int64) (string, []any) // and part, owner, fence
	// state, wait, attempts, error, seq, part, owner, fence
	fail    string
	sweep   string // age, limit
	stats   string
	dead    string // after, limit
	redrive func(ids []string) (string, []any)
	discard func(ids []string) (string, []any)
}

func queriesOf(d Dialect, table string) queries {
	quote, now := `"`, ""
	number := func(q string) string { return q }
	switch d {
	case SQLite:
		now = `CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)`
	case PostgreSQL:
		now, number = `(extract(epoch FROM statement_timestamp()) * 1000000)::bigint`, numbered
	case MySQL:
		quote, now = "`", `TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))`
	}
	q := queries{now: now, numbers: number}
	// {x} is the table, {x_parts} a related table.
	sql := func(text string) string {
		for _, suffix := range []string{"_parts", "_relays", "_meta", ""} {
			text = strings.ReplaceAll(text, "{x"+suffix+"}", quote+table+suffix+quote)
		}
		return number(strings.ReplaceAll(text, "{now}", now))
	}
	own := ` AND EXISTS (SELECT 1 FROM {x_parts} p WHERE p.part = ? AND p.owner = ? AND p.fence = ?)`
	q.add = `INSERT INTO {x} (id, part, key_hash, state, due, attempts, created, changed, topic, msg_key, content_type, headers, last_error, payload)
		VALUES (?, ?, ?, 0, 0, 0, {now}, {now}, ?, ?, ?, ?, ` + empty(d) + `, ?)`
	if d != MySQL {
		q.add += ` ON CONFLICT (id) DO NOTHING`
	}
	q.add = sql(q.add)
	q.version = sql(`SELECT version FROM {x_meta} WHERE id = 1`)
	q.renew = sql(`UPDATE {x_relays} SET lease_end = {now} + ? WHERE owner = ? AND lease_end > {now}`)
	q.turn = sql(`UPDATE {x_meta} SET version = version WHERE id = 1`)
	q.lapsed = sql(`DELETE FROM {x_relays} WHERE lease_end <= {now}`)
	q.forget = sql(`DELETE FROM {x_relays} WHERE owner = ?`)
	q.register = sql(`INSERT INTO {x_relays} (owner, lease_end) VALUES (?, {now} + ?)`)
	q.relays = sql(`SELECT owner FROM {x_relays}`)
	q.parts = sql(`SELECT part, owner, fence FROM {x_parts} ORDER BY part`)
	q.claim = sql(`UPDATE {x_parts} SET owner = ?, fence = fence + 1 WHERE part = ? AND fence = ?`)
	q.release = sql(`UPDATE {x_parts} SET owner = ` + empty(d) + ` WHERE part = ? AND owner = ? AND fence = ?`)
	q.look = sql(`SELECT p.part, CASE WHEN EXISTS (SELECT 1 FROM {x} m WHERE m.state = 0 AND m.part = p.part AND m.due <= {now}) THEN 1 ELSE 0 END,
		CASE WHEN EXISTS (SELECT 1 FROM {x_relays} r WHERE r.owner = p.owner AND r.lease_end > {now}) THEN 0 ELSE 1 END FROM {x_parts} p`)
	// A key is held up by a failed message that waits, and by a dead one.
	holding := func(skipDead bool) string {
		if skipDead {
			return failed(d) + ` AND b.state = 0 AND b.due > {now}`
		}
		return failed(d) + ` AND (b.state = 1 OR b.due > {now})`
	}
	q.held = func(skipDead bool) string {
		return sql(`SELECT DISTINCT b.key_hash FROM {x} b WHERE b.part = ? AND ` + holding(skipDead) + ` LIMIT ?`)
	}
	q.take = func(skipDead bool, held [][hashSize]byte, after int64) (string, []any) {
		before := holding(skipDead)
		if d == PostgreSQL {
			before += ` OFFSET 0` // for each message: a join would read all pending messages
		}
		without, args := hashesOut(d, held)
		// A transaction may have committed late, so that its messages are before the position of the
		// pass. They come first of their key. SQLite has one writer, whose commits are in order.
		late := ""
		if after > 0 && d != SQLite {
			pending := map[Dialect]string{PostgreSQL: `b.state = 0`, MySQL: `b.failed = 0 AND b.state = 0`}[d]
			if d == PostgreSQL {
				pending += ` OFFSET 0`
			}
			late = ` AND NOT EXISTS (SELECT 1 FROM {x} b WHERE b.key_hash = m.key_hash AND b.seq <= ? AND ` + pending + `)`
			args = append(args, after)
		}
		return sql(`SELECT m.seq, m.key_hash, m.id, m.topic, m.msg_key, m.headers, m.content_type, m.created, m.attempts, m.payload FROM {x} m
			WHERE m.state = 0 AND m.part = ? AND m.due <= {now} AND m.seq > ?` + without + late + `
			AND NOT EXISTS (SELECT 1 FROM {x} b WHERE b.key_hash = m.key_hash AND b.seq < m.seq AND ` + before + `)` + own + ` ORDER BY m.seq LIMIT ?`), args
	}
	q.holds = sql(`SELECT count(*) FROM {x_parts} WHERE part = ? AND owner = ? AND fence = ?`)
	q.remove = func(seqs []int64) (string, []any) {
		in, args := numbersIn(d, seqs)
		return sql(`DELETE FROM {x} WHERE seq ` + in + own), args
	}
	q.retain = func(seqs []int64) (string, []any) {
		in, args := numbersIn(d, seqs)
		return sql(`UPDATE {x} SET state = 2, changed = {now} WHERE seq ` + in + own), args
	}
	q.fail = sql(`UPDATE {x} SET state = ?, due = {now} + ?, attempts = ?, last_error = ?, changed = {now} WHERE state = 0 AND seq = ?` + own)
	const old = `state = 2 AND changed < {now} - ? ORDER BY changed LIMIT ?`
	switch d {
	case SQLite:
		q.sweep = sql(`DELETE FROM {x} WHERE seq IN (SELECT seq FROM {x} WHERE ` + old + `)`)
	case PostgreSQL:
		q.sweep = sql(`DELETE FROM {x} WHERE seq = ANY(ARRAY(SELECT seq FROM {x} WHERE ` + old + `))`)
	case MySQL:
		q.sweep = sql(`DELETE FROM {x} WHERE ` + old)
	}
	q.stats = sql(`SELECT state, count(*), coalesce(sum(CASE WHEN due > {now} THEN 1 ELSE 0 END), 0), {now} - min(created) FROM {x} WHERE state < 2 GROUP BY state`)
	q.dead = sql(`SELECT seq, id, topic, msg_key, attempts, created, changed, last_error FROM {x} WHERE state = 1 AND seq > ? ORDER BY seq LIMIT ?`)
	q.redrive = func(ids []string) (string, []any) {
		in, args := textsIn(ids)
		return sql(`UPDATE {x} SET state = 0, due = 0, attempts = 0, changed = {now} WHERE state = 1 AND id ` + in), args
	}
	q.discard = func(ids []string) (string, []any) {
		in, args := textsIn(ids)
		return sql(`DELETE FROM {x} WHERE state = 1 AND id ` + in), args
	}
	return q
}

// failed is the condition of the index of failed messages, in the same words.
func failed(d Dialect) string {
	if d == MySQL {
		return `b.failed = 1`
	}
	return `b.due > 0 AND b.state < 2`
}

// empty is a value of no bytes.
func empty(d Dialect) string {
	if d == SQLite {
		return `x''`
	}
	return `''`
}

// numbered replaces the placeholders by $1 and so on.
func numbered(q string) string {
	var b strings.Builder
	n := 0
	for _, c := range q {
		if c != '?' {
			b.WriteRune(c)
			continue
		}
		n++
		b.WriteString("$" + strconv.Itoa(n))
	}
	return b.String()
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
	return places(len(args)), args
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
	return ` AND m.key_hash NOT ` + places(len(args)), args
}

func textsIn(texts []string) (string, []any) {
	args := make([]any, len(texts))
	for i, s := range texts {
		args[i] = []byte(s)
	}
	return places(len(args)), args
}

func places(n int) string { return `IN (` + strings.TrimSuffix(strings.Repeat("?, ", n), ", ") + `)` }
