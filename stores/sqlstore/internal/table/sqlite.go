package table

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
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// sqlite is the backend for a SQLite file, which has one writer at a time.
type sqlite struct{ db *Database }

// ReadTables runs f on a connection. A brief read is not interrupted.
func (s sqlite) ReadTables(ctx context.Context, how ReadSize, f func(context.Context, sqlkit.Execer) error) error {
	wait, cancel := s.db.NewPatience(ctx, time.Time{})
	defer cancel()
	inner := ctx
	if how == OneRow {
		inner = context.WithoutCancel(ctx)
	}
	for {
		if err := s.readOnce(ctx, wait, inner, f); !wait.mayRepeat(err) {
			return wait.sqliteError(err)
		}
	}
}

func (s sqlite) readOnce(ctx context.Context, wait Patience, inner context.Context, f func(context.Context, sqlkit.Execer) error) error {
	se, err := s.db.takeSession(wait)
	if err != nil {
		return err
	}
	defer se.giveBack(ctx)
	return f(inner, se)
}

// WriteTables lets one call write at a time, whatever its key. The transaction has the file's write
// lock from its beginning. The context of f does not end: once the lock is held, the rest is short
// and must not be interrupted.
func (s sqlite) WriteTables(ctx context.Context, _ RecordID, notAfter time.Time, f func(context.Context, sqlkit.Execer) (bool, error)) error {
	wait, cancel := s.db.NewPatience(ctx, notAfter)
	defer cancel()
	unlock, err := s.db.takeTurn(wait)
	if err != nil {
		return wait.sqliteError(err)
	}
	defer unlock()
	return s.db.WriteInTurn(wait, f)
}

// MigrateTables is WriteTables, since one process writes at a time. Once it has the lock, no time
// limits it.
func (s sqlite) MigrateTables(ctx context.Context, _ time.Duration, f func(context.Context, sqlkit.Execer) error) error {
	return s.WriteTables(ctx, RecordID{}, time.Time{}, func(ctx context.Context, w sqlkit.Execer) (bool, error) { return true, f(ctx, w) })
}

func (s sqlite) skewCause() string {
	return "this machine's clock: the clock was set back, or machines share the file, which SQLite does not allow over a network"
}

// addAdvice adds advice to err. SQLite has no code of its own for a missing table, so that is found
// by its text.
func (s sqlite) addAdvice(step string, err error) error {
	code := dberr.SQLiteCode(err)
	if code == codeError && strings.Contains(err.Error(), "no such table: "+s.db.Table) {
		return s.db.NotMigratedError()
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

func sqliteStatements(table string) Statements {
	t, meta, counts := `"`+table+`"`, `"`+table+`_meta"`, `"`+table+`_limits"`
	q := Statements{
		SchemaVersion: 1, TableName: t, PartsContain: `instr(r.parts, ?) > 0`, HasInserted: InsertedByCount, TellsInserted: true, Numbered: func(q string) string { return q },
		CreateTables: sqlkit.Statements(sqliteSchema, DefaultTable, table),
		LoadVersion:  `SELECT version FROM ` + meta + ` WHERE id = 1`,
		CountTables:  sqlkit.TableExists(dbtx.SQLite, table+"_meta"),
		TouchTables:  []string{`UPDATE ` + meta + ` SET version = version WHERE id = 1`},
		LockFile:     `UPDATE ` + meta + ` SET version = version WHERE id = 0`,
		LoadRow: `SELECT m.version, m.fence_floor, NULL, ` + selected + `r.answer
			FROM ` + meta + ` m LEFT JOIN ` + t + ` r ON r.id = ? WHERE m.id = 1`,
		LoadRows: `SELECT m.version, m.fence_floor, NULL, r.id, ` + selected + `r.answer
			FROM ` + meta + ` m LEFT JOIN ` + t + ` r ON r.id IN (?) WHERE m.id = 1`,
		UpdateRow:     updateStatement(t),
		UpdateSame:    updateStatement(t) + ` AND owner = ? AND fence = ? AND state = ? AND lease_end = ? AND updated = ? AND data = ?`,
		InsertRow:     `INSERT INTO ` + t + ` (` + strings.Join(inserted, ", ") + `) VALUES (` + sqlkit.List(len(inserted)) + `) ON CONFLICT (id) DO NOTHING`,
		FinishAttempt: finishStatement(t),
		// The first statement writes, so that it gets the file's lock: SQLite may refuse the lock
		// to a transaction that has read before.
		ClaimAt: `INSERT INTO ` + t + ` (id, parts, owner, data, state, fence, lease_end, expires, updated)
			SELECT ?2, ?3, ?4, ?5, 2, ?1, ?1 + ?6, 0, ?1 FROM ` + meta + ` m
			WHERE m.id = 1 AND m.version = 1 AND m.fence_floor < ?1 AND NOT EXISTS (` + otherFiles + `) ON CONFLICT (id) DO NOTHING`,
		IsHeld:      func(err error) bool { return isSQLiteBusy(err) && dberr.SQLiteCode(err) != codeBusySnapshot },
		ListRecords: `SELECT r.id, r.parts, ` + selected + `NULL FROM ` + t + ` r WHERE (r.expires = 0 OR r.expires > ?)`,
		CountIndex: `SELECT count(*) FROM sqlite_schema s, pragma_index_info(s.name) i WHERE s.type = 'index' AND s.name = '` + table + `_listing'
			AND lower(s.tbl_name) = lower('` + table + `') AND i.seqno = 0 AND i.name = 'parts'
			AND EXISTS (SELECT 1 FROM pragma_index_list(s.tbl_name) l WHERE l.name = s.name AND NOT l.partial)`,
		CountOtherIndex:  `SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND name = '` + table + `_listing'`,
		RenameOtherIndex: `DROP INDEX "` + table + `_listing"`,
		CreateIndex:      `CREATE INDEX IF NOT EXISTS "` + table + `_listing" ON ` + t + ` (parts)`,
		FindExpired:      `SELECT id FROM ` + t + ` WHERE expires <> 0 AND expires <= ? ORDER BY expires LIMIT ?`,
		RemoveOne:        `DELETE FROM ` + t + ` WHERE id = ? AND expires <> 0 AND expires <= ? RETURNING fence`,
		RaiseFloor:       `UPDATE ` + meta + ` SET fence_floor = max(fence_floor, ?) WHERE id = 1`,
		LoadUsage:        `SELECT m.version, NULL, l.counts FROM ` + meta + ` m LEFT JOIN ` + counts + ` l ON l.id = ? WHERE m.id = 1`,
		UpdateUsage: `INSERT INTO ` + counts + ` (id, namespace, tenant, expires, counts) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET expires = excluded.expires, counts = excluded.counts`,
		DeleteUsage:        `DELETE FROM ` + counts + ` WHERE id = ?`,
		FindExpiredUsage:   `SELECT count(*) FROM (SELECT 1 FROM ` + counts + ` WHERE expires <= ? LIMIT 1)`,
		RemoveExpiredUsage: `DELETE FROM ` + counts + ` WHERE id IN (SELECT id FROM ` + counts + ` WHERE expires <= ? LIMIT ?)`,
	}
	// A writer has locked the file: nothing can change between reading and writing.
	q.LockToJoin, q.InsertToJoin = q.LoadRow, q.InsertRow
	q.LockRow, q.LockRows, q.LockUsage, q.InsertUsage = q.LoadRow, q.LoadRows, q.LoadUsage, q.UpdateUsage
	return q
}

// CheckSettings refuses a database that connections do not share, and warns about weak settings.
func (s sqlite) CheckSettings(ctx context.Context) error {
	return s.ReadTables(ctx, AnyRows, s.checkSession)
}

func (s sqlite) checkSession(ctx context.Context, se sqlkit.Execer) error {
	var file sql.NullString
	err := se.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&file)
	if err != nil {
		return err
	}
	if file.String == "" && s.db.Pool.Stats().MaxOpenConnections != 1 {
		return StateError("sqlstore: the database is in memory, and each connection of the pool has one of its own: " +
			"use a file, or call SetMaxOpenConns(1), or take memstore")
	}
	if err := s.db.warnOfLosses(ctx, se); err != nil {
		return err
	}
	var journal string
	if err := se.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&journal); err != nil {
		return err
	}
	if !slices.Contains([]string{"wal", "off", "memory"}, journal) {
		s.db.logger.Warn("sqlstore: journal_mode is "+journal+": calls that only read wait for those that write, and a commit waits for those that read; "+
			"use journal_mode WAL", "table", s.db.Table)
	}
	return nil
}

// CheckDurability requires that commits reach the disk. There is no failover.
func (s sqlite) CheckDurability(ctx context.Context) error {
	return s.ReadTables(ctx, OneRow, s.db.refuseLosses)
}

// ChangeMany makes changes in one transaction. If other processes keep the file locked, making each
// change alone would not help.
func (s sqlite) ChangeMany(changes []*Change) error {
	err := s.changeInOne(changes)
	var lock *LockError
	if !errors.As(err, &lock) {
		return err
	}
	for _, c := range changes {
		if c.Err == nil || c.Err == ErrMakeAlone { //nolint:errorlint // nothing is wrapped around it
			c.Err = err
		}
	}
	return nil
}

func (s sqlite) changeInOne(changes []*Change) error {
	ctx := context.Background() // once the lock is held, the rest is short
	list := sqliteRows{s.db, 0}
	for _, c := range changes {
		if s.db.needsRead(c) {
			list.least++
		}
	}
	// Before a connection is held: preparing takes one.
	q := s.db.Statements.Load()
	statements, err := s.db.Cache.PrepareAll(ctx, s.db, q.LockFile, q.InsertRow, q.UpdateRow, q.UpdateSame, list.listQuery(1))
	if err != nil {
		return err
	}
	// the records are in one file, so attached files do not matter
	tx, err := s.db.BeginWriteWith(ctx, func(tx *sql.Tx) error { return s.db.lockFile(ctx, statements.Within(tx)) })
	if err != nil {
		return err
	}
	defer tx.Close()
	now, _ := beginChanges(changes)
	if len(now) == 0 {
		return nil
	}
	commit, err := s.db.changeRows(ctx, statements.Within(tx.Tx), list, now)
	if err != nil || !commit {
		return err
	}
	if err := tx.commitWithin(ctx, s.timeLeft(now)); err != nil {
		if commitUndone(err) {
			return err
		}
		return &CommitError{err}
	}
	return nil
}

// timeLeft returns how long a COMMIT may wait: until the first of the changes would come too late.
// If it waits in vain, each change is made alone, in its own time.
func (s sqlite) timeLeft(changes []*Change) time.Duration {
	limit := s.db.LockWait
	for _, c := range changes {
		if !c.NotAfter.IsZero() {
			limit = min(limit, max(0, c.NotAfter.Sub(s.db.Clock())))
		}
	}
	return limit
}

// LookUpMany implements [Backend]. It uses no session: no caller waits for SQLite longer than its
// own context, whatever busy_timeout is.
func (s sqlite) LookUpMany(ctx context.Context, looks []*Lookup) error {
	list := sqliteRows{s.db, len(looks)}
	query := list.listQuery(len(looks))
	statements, err := s.db.Cache.PrepareAll(ctx, s.db, query)
	if err != nil {
		return err
	}
	wait, cancel := s.db.NewPatience(ctx, time.Time{})
	defer cancel()
	for {
		if err := s.db.lookUpRows(ctx, pooledStatement{statements[query]}, list, looks); !wait.mayRepeat(err) {
			return wait.sqliteError(err)
		}
	}
}

// sqliteRows reads many rows with one statement that lists their ids, and writes each row with a
// prepared one.
type sqliteRows struct {
	db    *Database
	least int // how many ids the statement has at least
}

func (l sqliteRows) loadMany(ctx context.Context, w querier, _ string, ids []RecordID) (map[RecordID]Loaded, Loaded, error) {
	args := make([]any, l.countPlaces(len(ids)))
	for i := range args {
		args[i] = ids[min(i, len(ids)-1)][:]
	}
	return l.db.loadRecords(ctx, w, l.listQuery(len(ids)), args...)
}

// listQuery returns a statement with placeholders for n ids; the last id fills the rest.
func (l sqliteRows) listQuery(n int) string {
	return strings.Replace(l.db.Statements.Load().LoadRows, "(?)", "("+sqlkit.List(l.countPlaces(n))+")", 1)
}

// countPlaces returns the number of ids in a statement for n, a power of two. So there are few
// different statements to prepare.
func (l sqliteRows) countPlaces(n int) int { return 1 << bits.Len(uint(max(1, l.least, n)-1)) }

func (l sqliteRows) writeMany(ctx context.Context, w sqlkit.Execer, made, changed []*Change) error {
	for _, c := range made {
		r, err := w.ExecContext(ctx, l.db.Statements.Load().InsertRow, InsertArgs(&c.Key, c.ID, &c.Next)...)
		if err != nil {
			return err
		}
		made, err := InsertedByCount(r)
		if err != nil {
			return err
		}
		if !made {
			c.markRecordThere()
		}
	}
	for _, c := range changed {
		if c.Knows == WroteLast {
			same, err := l.putSame(ctx, w, c)
			if err != nil {
				return err
			}
			if !same {
				c.Err = ErrMakeAlone
			}
			continue
		}
		if _, err := w.ExecContext(ctx, l.db.Statements.Load().UpdateRow, append(RowArgs(&c.Next), c.ID[:])...); err != nil {
			return err
		}
	}
	return nil
}

// putSame overwrites a record if it is as this store has last written it.
func (l sqliteRows) putSame(ctx context.Context, w sqlkit.Execer, c *Change) (same bool, err error) {
	was := &c.Last
	args := append(RowArgs(&c.Next), c.ID[:], was.Owner[:], int64(was.Fence), int64(was.State), was.LeaseEnd, was.Updated, AppendData(nil, was)) //nolint:gosec // fences stay below 2^53
	r, err := w.ExecContext(ctx, l.db.Statements.Load().UpdateSame, args...)
	if err != nil {
		return false, err
	}
	return InsertedByCount(r)
}

// mayRepeat reports, after a pause, whether another transaction was in the way of a try, and there
// is time for the next.
func (p Patience) mayRepeat(err error) bool {
	return err != nil && isSQLiteBusy(err) && sqlkit.Pause(p)
}

// sqliteError returns the error of a wait in vain, or err unchanged if it is another error.
func (p Patience) sqliteError(err error) error {
	if err == nil {
		return nil
	}
	err = WithContextError(p.Caller, err)
	if end := p.Caller.Err(); end != nil && (isSQLiteBusy(err) || errors.Is(err, end)) {
		return &LockError{Ended: end, text: sqliteWaits}
	}
	if end := p.Err(); isSQLiteBusy(err) || end != nil && errors.Is(err, end) {
		return &LockError{after: p.Limit, text: sqliteWaits}
	}
	return err
}

// sqliteSession is a pooled connection for one call. SQLite's own busy handler is off: it sleeps
// without regard to the caller's context, so this package waits instead.
type sqliteSession struct {
	*sql.Conn
	callerTimeout  int64 // the caller's busy_timeout in milliseconds
	currentTimeout int64 // the current busy_timeout
}

// setTimeout sets SQLite's own wait for locks.
func (se *sqliteSession) setTimeout(ctx context.Context, d time.Duration) error {
	ms := d.Milliseconds()
	if ms == se.currentTimeout {
		return nil
	}
	_, err := se.ExecContext(context.WithoutCancel(ctx), fmt.Sprintf("PRAGMA busy_timeout = %d", ms))
	if err == nil {
		se.currentTimeout = ms
	}
	return err
}

// giveBack returns the connection to the pool in its original state.
func (se *sqliteSession) giveBack(ctx context.Context) {
	if err := se.setTimeout(ctx, time.Duration(se.callerTimeout)*time.Millisecond); err != nil && !errors.Is(err, sql.ErrConnDone) {
		sqlkit.Discard(se.Conn)
		return
	}
	_ = se.Close()
}

// takeSession takes a connection; ctx limits the wait for it.
func (d *Database) takeSession(ctx context.Context) (*sqliteSession, error) {
	conn, err := d.Pool.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("no connection to the database: %w", err)
	}
	se := &sqliteSession{Conn: conn}
	if err = conn.QueryRowContext(context.WithoutCancel(ctx), "PRAGMA busy_timeout").Scan(&se.callerTimeout); err == nil {
		se.currentTimeout = se.callerTimeout
		err = se.setTimeout(ctx, 0)
	}
	if err != nil {
		sqlkit.Discard(se.Conn)
		return nil, err
	}
	return se, nil
}

// WriteTx is a transaction of database/sql that has the file's write lock.
type WriteTx struct {
	*sql.Tx
	db       *Database
	session  *sqliteSession
	unlock   func()
	unusable bool // the connection is in an unknown state
}

func (w *WriteTx) openWith(ctx context.Context, first func(*sql.Tx) error) error {
	tx, err := w.session.BeginTx(ctx, nil)
	if err != nil {
		w.unusable = !isSQLiteBusy(err) // the transaction may have begun
		return err
	}
	if err := first(tx); err != nil {
		w.unusable = tx.Rollback() != nil
		return err
	}
	w.Tx = tx
	return nil
}

// errAttached refuses a transaction that could commit only in part.
const errAttached = StateError("sqlstore: the connection has another file attached, and a commit is atomic for each file by itself; detach it, or use " +
	"a *sql.DB of its own for what needs it")

// otherFiles returns a row for each attached file of a connection, and CountOtherFiles their
// number.
const (
	otherFiles      = "SELECT 1 FROM pragma_database_list WHERE name NOT IN ('main', 'temp')"
	CountOtherFiles = "SELECT count(*) FROM (" + otherFiles + ")"
)

// RefuseOtherFiles refuses a connection with attached files: the record could commit without the
// effect, or the effect without the record. read reads the row of CountOtherFiles.
func RefuseOtherFiles(read func(dest ...any) error) error {
	var others int
	err := read(&others)
	if err == nil && others > 0 {
		err = errAttached
	}
	return err
}

// Commit sends COMMIT, which cannot be taken back. Readers of a file without WAL block it. Only
// SQLite itself can wait for them here, since a driver rolls back if COMMIT fails.
func (w *WriteTx) Commit(ctx context.Context) error {
	limit := w.db.LockWait
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, max(0, time.Until(end)))
	}
	return w.commitWithin(ctx, limit)
}

// commitWithin is commit with a limit for the wait for readers. If they are still there after that,
// nothing was committed.
func (w *WriteTx) commitWithin(ctx context.Context, limit time.Duration) error {
	wal, err := w.db.writesAhead(ctx, w.Tx)
	if err != nil {
		return err
	}
	if !wal {
		if _, err := w.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", limit.Milliseconds())); err != nil {
			return err
		}
		w.session.currentTimeout = limit.Milliseconds()
	}
	err = w.Tx.Commit()
	if w.unusable = err != nil; w.unusable {
		w.db.journalMode.Store(nil) // perhaps it was changed
	}
	return err
}

// RollBack rolls back what was not committed and returns the connection to the pool. It may be
// called again.
func (w *WriteTx) RollBack() {
	if w.session == nil {
		return
	}
	if w.Tx != nil {
		if err := w.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
			w.unusable = true
		}
	}
	if w.unusable {
		sqlkit.Discard(w.session.Conn)
	} else {
		w.session.giveBack(context.Background())
	}
	w.session = nil
}

// Close calls undo, and lets the next call write.
func (w *WriteTx) Close() {
	w.RollBack()
	w.unlock()
}

// BeginWrite opens a transaction for the caller's work. It ends with ctx.
func (d *Database) BeginWrite(ctx context.Context) (*WriteTx, error) {
	tx, err := d.BeginWriteWith(ctx, func(tx *sql.Tx) error { return d.lockFile(ctx, tx) })
	if err != nil {
		return nil, err
	}
	if err := RefuseOtherFiles(tx.QueryRowContext(ctx, CountOtherFiles).Scan); err != nil {
		tx.Close()
		return nil, err
	}
	return tx, nil
}

// lockFile takes the file's write lock with a statement that changes nothing. A transaction of
// database/sql begins without the lock. If it read first and another process wrote in between, it
// could not get the lock any more.
func (d *Database) lockFile(ctx context.Context, tx sqlkit.Execer) error {
	_, err := tx.ExecContext(ctx, d.Statements.Load().LockFile)
	return err
}

// BeginWriteWith opens a transaction whose first statement is made by first, and takes the file's
// write lock. It tries again while the file is busy.
func (d *Database) BeginWriteWith(ctx context.Context, first func(*sql.Tx) error) (*WriteTx, error) {
	wait, cancel := d.NewPatience(ctx, time.Time{})
	defer cancel()
	unlock, err := d.takeTurn(wait)
	if err != nil {
		return nil, wait.sqliteError(err)
	}
	tx := &WriteTx{db: d, unlock: unlock}
	if tx.session, err = d.takeSession(wait); err != nil {
		unlock()
		return nil, wait.sqliteError(err)
	}
	for {
		err := tx.openWith(ctx, first)
		if err == nil {
			return tx, nil
		}
		if !wait.mayRepeat(err) {
			tx.Close()
			return nil, wait.sqliteError(err)
		}
	}
}

// writesAhead reports whether the journal is a WAL. It asks once, and again after a COMMIT has
// failed: the mode of a file in use hardly ever changes.
func (d *Database) writesAhead(ctx context.Context, tx sqlkit.Execer) (bool, error) {
	if mode := d.journalMode.Load(); mode != nil {
		return *mode == "wal", nil
	}
	var mode string
	if err := tx.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return false, err
	}
	d.journalMode.Store(&mode)
	return mode == "wal", nil
}

// WriteInTurn is [Backend].WriteTables for a caller that has the turn.
func (d *Database) WriteInTurn(wait Patience, f func(context.Context, sqlkit.Execer) (commit bool, err error)) error {
	w, err := d.takeSession(wait)
	if err != nil {
		return wait.sqliteError(err)
	}
	whole := context.WithoutCancel(wait.Caller)
	if err = w.execWithin(whole, wait, "BEGIN IMMEDIATE"); err != nil {
		if isSQLiteBusy(err) {
			w.giveBack(whole)
		} else {
			sqlkit.Discard(w.Conn) // SQLite rolls back what may have begun
		}
		return wait.sqliteError(err)
	}
	commit, err := f(whole, w)
	if err == nil {
		err = wait.Caller.Err()
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
func (se *sqliteSession) execWithin(ctx context.Context, wait Patience, statement string) error {
	for {
		if _, err := se.ExecContext(ctx, statement); !wait.mayRepeat(err) {
			return err
		}
	}
}

// takeTurn waits until no other call of this store writes.
func (d *Database) takeTurn(wait Patience) (unlock func(), err error) {
	select {
	case d.writerTurn <- struct{}{}:
		return func() { <-d.writerTurn }, nil
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

// isSQLiteBusy reports whether another transaction was in the way, so that the same call may
// succeed later.
func isSQLiteBusy(err error) bool {
	code := dberr.SQLiteCode(err)
	return code&0xff == codeBusy || code&0xff == codeProtocol || code == codeLockedSharedCache
}

// commitUndone reports whether a COMMIT that failed has certainly changed nothing. After any other
// error the outcome is unknown.
func commitUndone(err error) bool {
	switch dberr.SQLiteCode(err) & 0xff {
	case codeBusy, codeReadOnly, codeFull, codeConstraint:
		return true
	}
	return false
}

// UndoneBySQLite reports whether SQLite may have rolled back the whole transaction because of err.
func UndoneBySQLite(err error) bool {
	switch dberr.SQLiteCode(err) & 0xff {
	case codeBusy, codeNoMemory, codeInterrupt, codeIO, codeFull, codeConstraint:
		return true
	}
	return false
}

// WithContextError returns the error of ctx if SQLite was interrupted because ctx ended, and err
// otherwise.
func WithContextError(ctx context.Context, err error) error {
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
