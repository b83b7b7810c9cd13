package sqlstore

import (
	"context"
	"database/sql"
	_ "embed" // the schema
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/dberr"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/sqlstore/dbtx"
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
	for {
		if err := s.readOnce(ctx, wait, inner, f); !wait.mayRepeat(err) {
			return wait.sqliteError(err)
		}
	}
}

func (s sqlite) readOnce(ctx context.Context, wait patience, inner context.Context, f func(context.Context, sqlkit.Execer) error) error {
	se, err := s.db.takeSession(wait)
	if err != nil {
		return err
	}
	defer se.giveBack(ctx)
	return f(inner, se)
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
		schema:  sqlkit.Statements(sqliteSchema, defaultTable, table),
		version: `SELECT version FROM ` + meta + ` WHERE id = 1`,
		exists:  sqlkit.TableExists(dbtx.SQLite, table+"_meta"),
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

// checkSettings refuses a database that connections do not share, and warns about weak settings.
func (s sqlite) checkSettings(ctx context.Context) error {
	wait, cancel := s.db.patience(ctx, time.Time{})
	defer cancel()
	for {
		if err := s.readOnce(ctx, wait, ctx, s.checkSession); !wait.mayRepeat(err) {
			return wait.sqliteError(err)
		}
	}
}

func (s sqlite) checkSession(ctx context.Context, se sqlkit.Execer) error {
	var file sql.NullString
	err := se.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&file)
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
}

// keeps requires that commits reach the disk. There is no failover.
func (s sqlite) keeps(ctx context.Context) error {
	return s.read(ctx, brief, s.db.refuseLosses)
}

// changeOne implements backend.
func (s sqlite) changeOne(c *change) error {
	return s.db.write(c.ctx, c.notAfter, func(ctx context.Context, w sqlkit.Execer) (bool, error) { return s.db.changeRow(ctx, w, c) })
}

// changeMany makes changes in one transaction. If other processes keep the file locked, making each
// change alone would not help.
func (s sqlite) changeMany(changes []*change) error {
	err := s.changeInOne(changes)
	var lock *lockError
	if !errors.As(err, &lock) {
		return err
	}
	for _, c := range changes {
		if !c.hasFailed() {
			c.err = err
		}
	}
	return nil
}

func (s sqlite) changeInOne(changes []*change) error {
	ctx := context.Background() // once the lock is held, the rest is short
	list := inList{s.db, 0}
	for _, c := range changes {
		if c.needsLook(list) {
			list.least++
		}
	}
	// Before a connection is held: preparing takes one.
	q := s.db.queries()
	statements, err := s.db.statements.prepare(ctx, s.db, q.lock, q.make, q.put, q.putSame, list.query(1))
	if err != nil {
		return err
	}
	// the records are in one file, so attached files do not matter
	tx, err := s.db.beginWith(ctx, func(tx *sql.Tx) error { return s.db.lockFile(ctx, prepared{tx, statements}) })
	if err != nil {
		return err
	}
	defer tx.end()
	now := beginChanges(changes)
	if len(now) == 0 {
		return nil
	}
	commit, err := changeRows(ctx, prepared{tx.Tx, statements}, list, now)
	if err != nil || !commit {
		return err
	}
	if err := tx.commitWithin(ctx, s.timeLeft(now)); err != nil {
		if sqliteUndone(err) {
			return err
		}
		return &commitError{err}
	}
	return nil
}

// timeLeft returns how long a COMMIT may wait: until the first of the changes would come too late.
// If it waits in vain, each change is made alone, in its own time.
func (s sqlite) timeLeft(changes []*change) time.Duration {
	limit := s.db.lockWait
	for _, c := range changes {
		if !c.notAfter.IsZero() {
			limit = min(limit, max(0, c.notAfter.Sub(s.db.clock())))
		}
	}
	return limit
}

// lookAtOne implements backend.
func (s sqlite) lookAtOne(ctx context.Context, id recordID) (found loaded, err error) {
	err = s.read(ctx, brief, func(ctx context.Context, db sqlkit.Execer) error {
		found, err = s.db.load(ctx, db, s.db.queries().load, id)
		return err
	})
	return found, err
}

// lookAtMany implements backend. It uses no session: no caller waits for SQLite longer than its own
// context, whatever busy_timeout is.
func (s sqlite) lookAtMany(ctx context.Context, looks []*look) error {
	list := inList{s.db, len(looks)}
	query := list.query(len(looks))
	statements, err := s.db.statements.prepare(ctx, s.db, query)
	if err != nil {
		return err
	}
	wait, cancel := s.db.patience(ctx, time.Time{})
	defer cancel()
	for {
		if err := lookAtRows(ctx, pooled{statements[query]}, list, looks); !wait.mayRepeat(err) {
			return wait.sqliteError(err)
		}
	}
}

// tellsInserted implements backend.
func (sqlite) tellsInserted() bool { return true }

// inList reads many rows with one statement that lists their ids, and writes each row with a
// prepared one.
type inList struct {
	db    *database
	least int // how many ids the statement has at least
}

func (l inList) loadMany(ctx context.Context, w querier, ids []recordID) (map[recordID]loaded, loaded, error) {
	args := make([]any, l.places(len(ids)))
	for i := range args {
		args[i] = ids[min(i, len(ids)-1)][:]
	}
	return l.db.loadAll(ctx, w, l.query(len(ids)), args...)
}

// query returns a statement with placeholders for n ids; the last id fills the rest.
func (l inList) query(n int) string {
	return strings.Replace(l.db.queries().loadMany, "(?)", "("+sqlkit.List(l.places(n))+")", 1)
}

// places returns the number of ids in a statement for n, a power of two. So there are few different
// statements to prepare.
func (l inList) places(n int) int { return 1 << bits.Len(uint(max(1, l.least, n)-1)) }

// surelyAbsent is always true, since no other call writes.
func (inList) surelyAbsent(*change) bool { return true }

func (inList) tellsInserted() bool { return true }

func (l inList) writeMany(ctx context.Context, w sqlkit.Execer, made, changed []*change) error {
	for _, c := range made {
		r, err := w.ExecContext(ctx, l.db.queries().make, c.insertArgs()...)
		if err != nil {
			return err
		}
		made, err := byCount(r)
		if err != nil {
			return err
		}
		if !made {
			c.metRecord()
		}
	}
	for _, c := range changed {
		if c.knows == wroteLast {
			same, err := l.putSame(ctx, w, c)
			if err != nil {
				return err
			}
			if !same {
				c.err = errMakeAlone
			}
			continue
		}
		if _, err := w.ExecContext(ctx, l.db.queries().put, append(rowArgs(&c.next), c.id[:])...); err != nil {
			return err
		}
	}
	return nil
}

// putSame overwrites a record if it is as this store has last written it.
func (l inList) putSame(ctx context.Context, w sqlkit.Execer, c *change) (same bool, err error) {
	was := &c.last
	args := append(rowArgs(&c.next), c.id[:], was.Owner[:], int64(was.Fence), int64(was.State), was.LeaseEnd, was.Updated, appendData(nil, was)) //nolint:gosec // fences stay below 2^53
	r, err := w.ExecContext(ctx, l.db.queries().putSame, args...)
	if err != nil {
		return false, err
	}
	return byCount(r)
}

// mayRepeat reports, after a pause, whether another transaction was in the way of a try, and there
// is time for the next.
func (p patience) mayRepeat(err error) bool {
	return err != nil && sqliteBusy(err) && sqlkit.Pause(p)
}

// sqliteError returns the error of a wait in vain, or err unchanged if it is another error.
func (p patience) sqliteError(err error) error {
	if err == nil {
		return nil
	}
	err = interrupted(p.caller, err)
	if end := p.caller.Err(); end != nil && (sqliteBusy(err) || errors.Is(err, end)) {
		return &lockError{ended: end, text: sqliteWaits}
	}
	if end := p.Err(); sqliteBusy(err) || end != nil && errors.Is(err, end) {
		return &lockError{after: p.limit, text: sqliteWaits}
	}
	return err
}

// session is a pooled connection for one call. SQLite's own busy handler is off: it sleeps without
// regard to the caller's context, so this package waits instead.
type session struct {
	*sql.Conn
	timeout int64 // the caller's busy_timeout in milliseconds
	set     int64 // the current busy_timeout
}

// setTimeout sets SQLite's own wait for locks.
func (se *session) setTimeout(ctx context.Context, d time.Duration) error {
	ms := d.Milliseconds()
	if ms == se.set {
		return nil
	}
	_, err := se.ExecContext(context.WithoutCancel(ctx), fmt.Sprintf("PRAGMA busy_timeout = %d", ms))
	if err == nil {
		se.set = ms
	}
	return err
}

// giveBack returns the connection to the pool in its original state.
func (se *session) giveBack(ctx context.Context) {
	if err := se.setTimeout(ctx, time.Duration(se.timeout)*time.Millisecond); err != nil && !errors.Is(err, sql.ErrConnDone) {
		sqlkit.Discard(se.Conn)
		return
	}
	_ = se.Close()
}

// takeSession takes a connection; ctx limits the wait for it.
func (d *database) takeSession(ctx context.Context) (*session, error) {
	conn, err := d.pool.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("no connection to the database: %w", err)
	}
	se := &session{Conn: conn}
	if err = conn.QueryRowContext(context.WithoutCancel(ctx), "PRAGMA busy_timeout").Scan(&se.timeout); err == nil {
		se.set = se.timeout
		err = se.setTimeout(ctx, 0)
	}
	if err != nil {
		sqlkit.Discard(se.Conn)
		return nil, err
	}
	return se, nil
}

// writeTx is a transaction of database/sql that has the file's write lock.
type writeTx struct {
	*sql.Tx
	db      *database
	session *session
	unlock  func()
	lost    bool // the connection is in an unknown state
}

func (w *writeTx) open(ctx context.Context, first func(*sql.Tx) error) error {
	tx, err := w.session.BeginTx(ctx, nil)
	if err != nil {
		w.lost = !sqliteBusy(err) // the transaction may have begun
		return err
	}
	if err := first(tx); err != nil {
		w.lost = tx.Rollback() != nil
		return err
	}
	w.Tx = tx
	return nil
}

// errAttached refuses a transaction that could commit only in part.
const errAttached = stateError("sqlstore: the connection has another file attached, and a commit is atomic for each file by itself; detach it, or use " +
	"a *sql.DB of its own for what needs it")

// otherFiles returns a row for each attached file of a connection, and countOtherFiles their
// number.
const (
	otherFiles      = "SELECT 1 FROM pragma_database_list WHERE name NOT IN ('main', 'temp')"
	countOtherFiles = "SELECT count(*) FROM (" + otherFiles + ")"
)

// oneFile refuses a connection with attached files: the record could commit without the effect, or
// the effect without the record. read reads the row of countOtherFiles.
func oneFile(read func(dest ...any) error) error {
	var others int
	err := read(&others)
	if err == nil && others > 0 {
		err = errAttached
	}
	return err
}

// commit sends COMMIT, which cannot be taken back. Readers of a file without WAL block it. Only
// SQLite itself can wait for them here, since a driver rolls back if COMMIT fails.
func (w *writeTx) commit(ctx context.Context) error {
	limit := w.db.lockWait
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, max(0, time.Until(end)))
	}
	return w.commitWithin(ctx, limit)
}

// commitWithin is commit with a limit for the wait for readers. If they are still there after that,
// nothing was committed.
func (w *writeTx) commitWithin(ctx context.Context, limit time.Duration) error {
	wal, err := w.db.writesAhead(ctx, w.Tx)
	if err != nil {
		return err
	}
	if !wal {
		if _, err := w.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", limit.Milliseconds())); err != nil {
			return err
		}
		w.session.set = limit.Milliseconds()
	}
	err = w.Tx.Commit()
	if w.lost = err != nil; w.lost {
		w.db.journal.Store(nil) // perhaps it was changed
	}
	return err
}

// undo rolls back what was not committed and returns the connection to the pool. It may be called
// again.
func (w *writeTx) undo() {
	if w.session == nil {
		return
	}
	if w.Tx != nil {
		if err := w.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
			w.lost = true
		}
	}
	if w.lost {
		sqlkit.Discard(w.session.Conn)
	} else {
		w.session.giveBack(context.Background())
	}
	w.session = nil
}

// end calls undo, and lets the next call write.
func (w *writeTx) end() {
	w.undo()
	w.unlock()
}

// begin opens a transaction for the caller's work. It ends with ctx.
func (d *database) begin(ctx context.Context) (*writeTx, error) {
	tx, err := d.beginWith(ctx, func(tx *sql.Tx) error { return d.lockFile(ctx, tx) })
	if err != nil {
		return nil, err
	}
	if err := oneFile(tx.QueryRowContext(ctx, countOtherFiles).Scan); err != nil {
		tx.end()
		return nil, err
	}
	return tx, nil
}

// lockFile takes the file's write lock with a statement that changes nothing. A transaction of
// database/sql begins without the lock. If it read first and another process wrote in between, it
// could not get the lock any more.
func (d *database) lockFile(ctx context.Context, tx sqlkit.Execer) error {
	_, err := tx.ExecContext(ctx, d.queries().lock)
	return err
}

// beginWith opens a transaction whose first statement is made by first, and takes the file's write
// lock. It tries again while the file is busy.
func (d *database) beginWith(ctx context.Context, first func(*sql.Tx) error) (*writeTx, error) {
	wait, cancel := d.patience(ctx, time.Time{})
	defer cancel()
	unlock, err := d.takeTurn(wait)
	if err != nil {
		return nil, wait.sqliteError(err)
	}
	tx := &writeTx{db: d, unlock: unlock}
	if tx.session, err = d.takeSession(wait); err != nil {
		unlock()
		return nil, wait.sqliteError(err)
	}
	for {
		err := tx.open(ctx, first)
		if err == nil {
			return tx, nil
		}
		if !wait.mayRepeat(err) {
			tx.end()
			return nil, wait.sqliteError(err)
		}
	}
}

// writesAhead reports whether the journal is a WAL. It asks once, and again after a COMMIT has
// failed: the mode of a file in use hardly ever changes.
func (d *database) writesAhead(ctx context.Context, tx sqlkit.Execer) (bool, error) {
	if mode := d.journal.Load(); mode != nil {
		return *mode == "wal", nil
	}
	var mode string
	if err := tx.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return false, err
	}
	d.journal.Store(&mode)
	return mode == "wal", nil
}

// write runs f in a transaction that has the file's write lock from its beginning, and commits if f
// says so. The context of f does not end: once the lock is held, the rest is short and must not be
// interrupted.
func (d *database) write(ctx context.Context, notAfter time.Time, f func(context.Context, sqlkit.Execer) (commit bool, err error)) error {
	wait, cancel := d.patience(ctx, notAfter)
	defer cancel()
	unlock, err := d.takeTurn(wait)
	if err != nil {
		return wait.sqliteError(err)
	}
	defer unlock()
	return d.writeInTurn(wait, f)
}

// writeInTurn is write for a caller that has the turn.
func (d *database) writeInTurn(wait patience, f func(context.Context, sqlkit.Execer) (commit bool, err error)) error {
	w, err := d.takeSession(wait)
	if err != nil {
		return wait.sqliteError(err)
	}
	whole := context.WithoutCancel(wait.caller)
	if err = w.execWithin(whole, wait, "BEGIN IMMEDIATE"); err != nil {
		if sqliteBusy(err) {
			w.giveBack(whole)
		} else {
			sqlkit.Discard(w.Conn) // SQLite rolls back what may have begun
		}
		return wait.sqliteError(err)
	}
	commit, err := f(whole, w)
	if err == nil {
		err = wait.caller.Err()
	}
	if err == nil && commit {
		// Readers of a file without WAL block the COMMIT, but not the statements before it.
		err = w.execWithin(whole, wait, "COMMIT")
	} else {
		_, failed := w.ExecContext(whole, "ROLLBACK")
		err = errors.Join(err, failed)
	}
	if err != nil {
		sqlkit.Discard(w.Conn)
		return wait.sqliteError(err)
	}
	w.giveBack(whole)
	return nil
}

// execWithin runs a statement until no other transaction is in its way, or wait ends.
func (se *session) execWithin(ctx context.Context, wait patience, statement string) error {
	for {
		if _, err := se.ExecContext(ctx, statement); !wait.mayRepeat(err) {
			return err
		}
	}
}

// takeTurn waits until no other call of this store writes.
func (d *database) takeTurn(wait patience) (unlock func(), err error) {
	select {
	case d.writer <- struct{}{}:
		return func() { <-d.writer }, nil
	case <-wait.Done():
		return nil, wait.Err()
	}
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
