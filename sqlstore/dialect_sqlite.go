package sqlstore

import (
	_ "embed" // the schema
	"strings"

	"github.com/retrysafe/retrysafe/internal/dberr"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// sqliteSchema creates version 1, with the default names. It is frozen: a change needs a new
// version and a step in Migrate.
//
//go:embed schema/sqlite_v1.sql
var sqliteSchema string

func sqliteQueries(table string) queries {
	t, meta, counts := `"`+table+`"`, `"`+table+`_meta"`, `"`+table+`_limits"`
	q := queries{
		newest: 1, table: t, contains: `instr(r.parts, ?) > 0`, made: byCount, numbered: func(q string) string { return q },
		schema:  sqlkit.Statements(sqliteSchema, DefaultTable, table),
		version: `SELECT version FROM ` + meta + ` WHERE id = 1`,
		exists:  sqlkit.TableExists(SQLite, table+"_meta"),
		touch:   []string{`UPDATE ` + meta + ` SET version = version WHERE id = 1`},
		lock:    `UPDATE ` + meta + ` SET version = version WHERE id = 0`,
		load: `SELECT m.version, m.fence_floor, NULL, ` + selected + `r.answer
			FROM ` + meta + ` m LEFT JOIN ` + t + ` r ON r.id = ? WHERE m.id = 1`,
		loadMany: `SELECT m.version, m.fence_floor, NULL, r.id, ` + selected + `r.answer
			FROM ` + meta + ` m LEFT JOIN ` + t + ` r ON r.id IN (?) WHERE m.id = 1`,
		put:     updating(t),
		putSame: updating(t) + ` AND owner = ? AND fence = ? AND state = ? AND lease_end = ? AND updated = ? AND data = ?`,
		make:    `INSERT INTO ` + t + ` (` + strings.Join(inserted, ", ") + `) VALUES (` + sqlkit.List(len(inserted)) + `) ON CONFLICT (id) DO NOTHING`,
		finish:  finishing(t),
		// The first statement writes, so that it gets the file's lock: SQLite may refuse the lock
		// to a transaction that has read before.
		claimAt: `INSERT INTO ` + t + ` (id, parts, owner, data, state, fence, lease_end, expires, updated)
			SELECT ?2, ?3, ?4, ?5, 2, ?1, ?1 + ?6, 0, ?1 FROM ` + meta + ` m
			WHERE m.id = 1 AND m.version = 1 AND m.fence_floor < ?1 AND NOT EXISTS (` + otherFiles + `) ON CONFLICT (id) DO NOTHING`,
		held: func(err error) bool { return sqliteBusy(err) && dberr.SQLiteCode(err) != codeBusySnapshot },
		list: `SELECT r.id, r.parts, ` + selected + `NULL FROM ` + t + ` r WHERE (r.expires = 0 OR r.expires > ?)`,
		hasIndex: `SELECT count(*) FROM sqlite_schema s, pragma_index_info(s.name) i WHERE s.type = 'index' AND s.name = '` + table + `_listing'
			AND lower(s.tbl_name) = lower('` + table + `') AND i.seqno = 0 AND i.name = 'parts'
			AND EXISTS (SELECT 1 FROM pragma_index_list(s.tbl_name) l WHERE l.name = s.name AND NOT l.partial)`,
		otherIndex:  `SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND name = '` + table + `_listing'`,
		renameOther: `DROP INDEX "` + table + `_listing"`,
		indexKeys:   `CREATE INDEX IF NOT EXISTS "` + table + `_listing" ON ` + t + ` (parts)`,
		expired:     `SELECT id FROM ` + t + ` WHERE expires <> 0 AND expires <= ? ORDER BY expires LIMIT ?`,
		remove:      `DELETE FROM ` + t + ` WHERE id = ? AND expires <> 0 AND expires <= ? RETURNING fence`,
		raise:       `UPDATE ` + meta + ` SET fence_floor = max(fence_floor, ?) WHERE id = 1`,
		loadUsage:   `SELECT m.version, NULL, l.counts FROM ` + meta + ` m LEFT JOIN ` + counts + ` l ON l.id = ? WHERE m.id = 1`,
		putUsage: `INSERT INTO ` + counts + ` (id, namespace, tenant, expires, counts) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET expires = excluded.expires, counts = excluded.counts`,
		dropUsage:    `DELETE FROM ` + counts + ` WHERE id = ?`,
		expiredUsage: `SELECT count(*) FROM (SELECT 1 FROM ` + counts + ` WHERE expires <= ? LIMIT 1)`,
		removeUsage:  `DELETE FROM ` + counts + ` WHERE id IN (SELECT id FROM ` + counts + ` WHERE expires <= ? LIMIT ?)`,
	}
	// A writer has locked the file: nothing can change between reading and writing.
	q.loadToJoin, q.makeToJoin = q.load, q.make
	q.loadToWrite, q.loadUsageToWrite, q.makeUsage = q.load, q.loadUsage, q.putUsage
	return q
}
