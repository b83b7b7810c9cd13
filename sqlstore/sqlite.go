package sqlstore

import (
	"context"
	"database/sql"
	_ "embed" // the schema
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/dberr"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// sqlite is the backend for a SQLite file, which has one writer at a time.
type sqlite struct{ db *database }

// read runs f on a connection. A brief read is not interrupted.
func (s sqlite) read(ctx context.Context, how span, f func(context.Context, sqlkit.Execer) error) error {
	wait, cancel := s.db.patience(ctx, time.Time{})
	defer cancel()
	inner := ctx
	if how == brief {
		inner = context.WithoutCancel(ctx)
	}
	return wait.over(retry(wait, func() error {
		se, err := s.db.session(wait)
		if err != nil {
			return err
		}
		defer se.end(ctx)
		return f(inner, se)
	}))
}

// write lets one call write at a time, whatever its key.
func (s sqlite) write(ctx context.Context, _ recordID, notAfter time.Time, f func(context.Context, sqlkit.Execer) (bool, error)) error {
	return s.db.write(ctx, notAfter, f)
}

// migrate is write, since one process writes at a time. Once it has the lock, no time limits it.
func (s sqlite) migrate(ctx context.Context, _ time.Duration, f func(context.Context, sqlkit.Execer) error) error {
	return s.db.write(ctx, time.Time{}, func(ctx context.Context, w sqlkit.Execer) (bool, error) { return true, f(ctx, w) })
}

func (s sqlite) skew() string {
	return "this machine's clock: the clock was set back, or machines share the file, which SQLite does not allow over a network"
}

// explain adds advice to err. SQLite has no code of its own for a missing table, so that is found
// by its text.
func (s sqlite) explain(step string, err error) error {
	code := dberr.SQLiteCode(err)
	if code == codeError && strings.Contains(err.Error(), "no such table: "+s.db.table) {
		return s.db.notMigrated()
	}
	if code == codeBusySnapshot {
		return fmt.Errorf("sqlstore: %s: the transaction has read before, and somebody else has written since; let this be the first statement of a transaction: %w",
			step, err)
	}
	if text, ok := sqliteAdvice[code&0xff]; ok {
		return fmt.Errorf("sqlstore: %s: %s: %w", step, text, err)
	}
	return fmt.Errorf("sqlstore: %s: %w", step, err)
}

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

// settings refuses a database that connections do not share, and warns about weak settings.
func (s sqlite) settings(ctx context.Context) error {
	wait, cancel := s.db.patience(ctx, time.Time{})
	defer cancel()
	return wait.over(retry(wait, func() error {
		se, err := s.db.session(wait)
		if err != nil {
			return err
		}
		defer se.end(ctx)
		var file sql.NullString
		err = se.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&file)
		if err != nil {
			return err
		}
		if file.String == "" && s.db.pool.Stats().MaxOpenConnections != 1 {
			return stateError("sqlstore: the database is in memory, and each connection of the pool has one of its own: " +
				"use a file, or call SetMaxOpenConns(1), or take memstore")
		}
		if err := s.db.warn(ctx, se); err != nil {
			return err
		}
		var journal string
		if err := se.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&journal); err != nil {
			return err
		}
		if !slices.Contains([]string{"wal", "off", "memory"}, journal) {
			s.db.logger.Warn("sqlstore: journal_mode is "+journal+": calls that only read wait for those that write, and a commit waits for those that read; "+
				"use journal_mode WAL", "table", s.db.table)
		}
		return nil
	}))
}

// keeps requires that commits reach the disk. There is no failover.
func (s sqlite) keeps(ctx context.Context) error {
	return s.read(ctx, brief, s.db.refuseLosses)
}

// Primary result codes of SQLite. Extended codes have them in their low byte.
const (
	codeError      = 1
	codeBusy       = 5
	codeNoMemory   = 7
	codeInterrupt  = 9
	codeReadOnly   = 8
	codeIO         = 10
	codeCorrupt    = 11
	codeFull       = 13
	codeCantOpen   = 14
	codeProtocol   = 15
	codeConstraint = 19
	codeNotADB     = 26

	codeLockedSharedCache = 6 | 1<<8
	codeBusySnapshot      = codeBusy | 2<<8
)

// sqliteBusy reports whether another transaction was in the way, so that the same call may succeed
// later.
func sqliteBusy(err error) bool {
	code := dberr.SQLiteCode(err)
	return code&0xff == codeBusy || code&0xff == codeProtocol || code == codeLockedSharedCache
}

// sqliteUndone reports whether a COMMIT that failed has certainly changed nothing. After any other
// error the outcome is unknown.
func sqliteUndone(err error) bool {
	switch dberr.SQLiteCode(err) & 0xff {
	case codeBusy, codeReadOnly, codeFull, codeConstraint:
		return true
	}
	return false
}

// sqliteUndoes reports whether SQLite may have rolled back the whole transaction because of err.
func sqliteUndoes(err error) bool {
	switch dberr.SQLiteCode(err) & 0xff {
	case codeBusy, codeNoMemory, codeInterrupt, codeIO, codeFull, codeConstraint:
		return true
	}
	return false
}

// interrupted returns the error of ctx if SQLite was interrupted because ctx ended, and err
// otherwise.
func interrupted(ctx context.Context, err error) error {
	if end := ctx.Err(); end != nil && dberr.SQLiteCode(err)&0xff == codeInterrupt && !errors.Is(err, end) {
		return fmt.Errorf("%w: %w", end, err)
	}
	return err
}

// sqliteAdvice says what a result code means and what to do.
var sqliteAdvice = map[int]string{
	codeBusy:     "another transaction holds the database file",
	codeReadOnly: "the database file can only be read, and nothing was changed; open it without mode=ro, and let this user write to the file and to its directory",
	codeIO:       "the disk has failed; look into the system's log before you go on",
	codeCorrupt:  "the database file is damaged; stop the program, keep a copy, and restore a backup (PRAGMA integrity_check tells more)",
	codeFull:     "the disk is full, or the file has reached its max_page_count, and nothing was written; make room",
	codeCantOpen: "the database file cannot be opened; look whether its directory exists and this user may write to it",
	codeNotADB:   "the file is not a SQLite database, or it is encrypted; look at the path, nothing was changed",
}
