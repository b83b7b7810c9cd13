package table

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// server is the backend for database servers: many callers write concurrently, and wait for each
// other only on the row of a key.
type server struct {
	db    *Database
	kind  serverKind
	turns *keyTurns
	rows  manyRows
}

// serverKind is what differs between the kinds of server.
type serverKind interface {
	// beginReads prepares a connection for statements that change nothing, outside of any
	// transaction.
	beginReads(ctx context.Context, conn *sql.Conn) (readSession, error)
	// endReads leaves the connection as it was, after reads that have ended with err. again: the
	// server has refused them, and the next reads are others.
	endReads(ctx context.Context, conn *sql.Conn, r readSession, err error) (again bool, _ error)
	// beginOn opens a transaction that does not depend on the session's defaults, and that also
	// ends on the server if its client never comes back. within is the context for its statements:
	// call, or wait if the server itself cannot end a wait in time.
	beginOn(call context.Context, conn *sql.Conn, wait Patience) (within context.Context, err error)
	// commitOn ends the transaction. If it reaches the server after notAfter (zero: no limit),
	// nothing is committed and the error is storeapi.ErrTooLate. After any other error the outcome
	// is unknown.
	commitOn(call context.Context, conn *sql.Conn, notAfter time.Time) error
	// rollBackOn rolls the transaction back. After an error the connection is unusable.
	rollBackOn(call context.Context, conn *sql.Conn) error
	// classifyDriverError classifies an error of the driver for a call that was not committed.
	classifyDriverError(err error) ErrorClass
	// adviceFor says what an error of the driver means and what to do, if that is known. noTable
	// reports whether the tables are missing.
	adviceFor(err error) (text string, noTable bool)
}

// ErrorClass is the class of an error that came before the COMMIT.
type ErrorClass uint8

const (
	finalError ErrorClass = iota // the same call would fail again
	// Blocked: another transaction was in the way, and the same call may succeed. Without time for
	// another try, the call has waited in vain.
	Blocked
	lockTimedOut // the server has ended the wait for a lock at the call's time limit
	// OnlyLost: the server did not answer, or closes the connection; another connection may work.
	OnlyLost
)

// LostConnections is how often a call is tried again on another connection: after a restart of the
// server all connections in the pool are dead.
const LostConnections = 3

// ReadTables runs f on a connection of the pool.
func (s server) ReadTables(ctx context.Context, _ ReadSize, f func(context.Context, sqlkit.Execer) error) error {
	wait, cancel := s.db.NewPatience(ctx, time.Time{})
	defer cancel()
	call, cancel := context.WithTimeout(ctx, wait.Limit+Slack)
	defer cancel()
	for tries := (serverTries{s, wait, 0}); ; {
		err := s.readOnce(call, wait, f)
		if !tries.mayRepeat(err) {
			return s.waitError(wait, err)
		}
	}
}

func (s server) readOnce(call context.Context, wait Patience, f func(context.Context, sqlkit.Execer) error) error {
	conn, err := s.takeConnection(wait)
	if err != nil {
		return err
	}
	for again := true; again; {
		r, failed := s.kind.beginReads(call, conn)
		if failed == nil {
			failed = f(call, r.execer)
		}
		again, err = s.kind.endReads(call, conn, r, failed)
	}
	if err != nil && conn.PingContext(call) != nil {
		sqlkit.Discard(conn)
		return &lostError{err}
	}
	_ = conn.Close()
	return err
}

// readSession is how statements that change nothing are sent.
type readSession struct {
	execer     sqlkit.Execer
	limitsEach bool // each statement limits its wait for a table: MariaDB
	restores   bool // the session is to be restored afterwards: MySQL
}

// LookUpMany implements [Backend].
func (s server) LookUpMany(ctx context.Context, looks []*Lookup) error {
	return s.ReadTables(ctx, OneRow, func(ctx context.Context, db sqlkit.Execer) (err error) {
		if l := looks[0]; len(looks) == 1 {
			l.Found, err = s.db.LoadRecord(ctx, db, s.db.Statements.Load().LoadRow, l.ID)
			return err
		}
		return s.db.lookUpRows(ctx, db, s.rows, looks)
	})
}

// WriteTables runs f in a transaction.
func (s server) WriteTables(ctx context.Context, id RecordID, notAfter time.Time, f func(context.Context, sqlkit.Execer) (bool, error)) error {
	wait, cancel := s.db.NewPatience(ctx, notAfter)
	defer cancel()
	return s.writeWithin(wait, id, notAfter, f)
}

// writeWithin is WriteTables within wait. It first waits for this process's other writers of the
// same key, without holding a connection: calls for other keys may need it.
func (s server) writeWithin(wait Patience, id RecordID, notAfter time.Time, f func(context.Context, sqlkit.Execer) (bool, error)) error {
	giveTurn, err := s.turns.takeTurn(wait, id)
	if err != nil {
		return wait.waitedError()
	}
	defer giveTurn()
	call, cancel := context.WithTimeout(wait.Caller, wait.Limit+Slack)
	defer cancel()
	for tries := (serverTries{s, wait, 0}); ; {
		tx, err := s.beginTransaction(call, wait)
		if err == nil {
			var commit bool
			commit, err = f(tx.statementCtx, tx.conn)
			err = tx.endTransaction(notAfter, commit, err)
		}
		if !tries.mayRepeat(err) {
			return s.waitError(wait, err)
		}
	}
}

// rowWait is the longest that grouped changes wait for a row: a row that is held longer would delay
// all of them. MySQL rounds it to whole seconds.
const rowWait = 50 * time.Millisecond

// ChangeMany makes changes in one transaction, with few statements whatever their number.
func (s server) ChangeMany(changes []*Change) error {
	wait, cancel := s.db.NewPatience(context.Background(), time.Time{})
	defer cancel()
	wait.lockLimit = rowWait
	call, cancel := context.WithTimeout(context.Background(), wait.Limit+Slack)
	defer cancel()
	for tries := (serverTries{s, wait, 0}); ; {
		tx, err := s.beginTransaction(call, wait)
		if err == nil {
			commit := false
			begun, notAfter := beginChanges(changes)
			switch {
			case len(begun) == 1 && s.db.Dialect == dbtx.PostgreSQL:
				// the statements for many are slower for one
				commit, err = s.db.changeRow(tx.statementCtx, tx.conn, begun[0])
			case len(begun) > 0:
				commit, err = s.db.changeRows(tx.statementCtx, tx.conn, s.rows, begun)
			}
			err = tx.endTransaction(notAfter, commit, err)
		}
		// After a deadlock each change is made alone.
		if err == nil || s.classifyError(err) == Blocked || !tries.mayRepeat(err) {
			return err
		}
	}
}

// serverTx is a transaction on its own connection.
type serverTx struct {
	server
	conn         *sql.Conn
	callCtx      context.Context
	statementCtx context.Context // for the statements between its begin and its end
	patience     Patience
}

// beginTransaction opens a transaction.
func (s server) beginTransaction(call context.Context, wait Patience) (*serverTx, error) {
	conn, err := s.takeConnection(wait)
	if err != nil {
		return nil, err
	}
	tx := &serverTx{server: s, conn: conn, callCtx: call, patience: wait}
	if tx.statementCtx, err = s.kind.beginOn(call, conn, wait); err != nil {
		return nil, tx.rollBack(err)
	}
	return tx, nil
}

// endTransaction commits if commit is set and failed, the error of a statement, is nil. Otherwise
// it rolls back.
func (t *serverTx) endTransaction(notAfter time.Time, commit bool, failed error) error {
	err := failed
	if err != nil && t.statementCtx.Err() != nil && t.callCtx.Err() == nil {
		err = t.patience.waitedError()
	}
	if err == nil {
		err = t.patience.Caller.Err()
	}
	if err == nil && commit {
		if err = t.kind.commitOn(t.callCtx, t.conn, notAfter); err == nil {
			_ = t.conn.Close()
			return nil
		}
		if !errors.Is(err, storeapi.ErrTooLate) {
			err = &CommitError{err}
		}
	}
	return t.rollBack(err)
}

// rollBack rolls back, and returns err, for which there is nothing to commit.
func (t *serverTx) rollBack(err error) error {
	if t.kind.rollBackOn(t.callCtx, t.conn) != nil {
		sqlkit.Discard(t.conn) // the server rolls back when it notices that the client is gone
		if err == nil {
			return nil // there was nothing to commit
		}
		return &lostError{err}
	}
	_ = t.conn.Close()
	return err
}

// takeConnection takes a connection from the pool, within wait.
func (s server) takeConnection(wait Patience) (*sql.Conn, error) {
	conn, err := s.db.Calls.Conn(wait)
	switch {
	case err == nil:
		return conn, nil
	case wait.Err() != nil:
		return nil, wait.waitedError()
	}
	return nil, &lostError{fmt.Errorf("no connection to the database: %w", err)}
}

// serverTries counts the tries of one call.
type serverTries struct {
	server
	patience        Patience
	lostConnections int // how many have lost their connection
}

// mayRepeat reports, after a pause, whether the call is to be made again: it certainly had no
// effect and may succeed the next time, since another transaction was in the way, or the connection
// was dead. A COMMIT whose outcome is unknown is neither: see classifyError.
func (t *serverTries) mayRepeat(err error) bool {
	var gone *lostError
	switch class := t.classifyError(err); {
	case class == Blocked:
	case errors.As(err, &gone) && t.lostConnections < LostConnections && class == OnlyLost:
		t.lostConnections++
	default:
		return false
	}
	return sqlkit.Pause(t.patience)
}

// waitError returns the error of a wait in vain, or err unchanged if it is another error.
func (s server) waitError(wait Patience, err error) error {
	if err == nil || isOwnError(err) {
		return err
	}
	if class := s.kind.classifyDriverError(err); wait.Caller.Err() != nil || class == lockTimedOut || class == Blocked {
		return wait.waitedError()
	}
	return err
}

// millisLeft returns how many milliseconds the server may still let this call wait: slightly less
// than the caller has, so that the server answers before the connection has to be given up. It is
// at least 1, since zero would mean no limit.
func (p Patience) millisLeft() int64 {
	left := p.Limit
	if end, ok := p.Deadline(); ok {
		left = time.Until(end)
	}
	if end, ok := p.Caller.Deadline(); ok {
		short := time.Until(end)
		left = min(left, short-short/8)
	}
	if p.lockLimit > 0 {
		left = min(left, p.lockLimit)
	}
	return max(1, left.Milliseconds())
}

// ServerErrorClassifier returns the function that classifies a server's errors; not ok: SQLite is
// no server.
func (d *Database) ServerErrorClassifier() (classify func(error) ErrorClass, ok bool) {
	on, ok := d.Backend.(interface{ classifyError(error) ErrorClass })
	if !ok {
		return nil, false
	}
	return on.classifyError, true
}

// classifyError classifies an error for a call that was not committed.
func (s server) classifyError(err error) ErrorClass {
	if err == nil || isOwnError(err) {
		return finalError
	}
	return s.kind.classifyDriverError(err)
}

// skewCause implements [Backend].
func (s server) skewCause() string {
	return "the server's clock: the clock was set back, or another server with another clock has taken over"
}

// addAdvice adds advice to err.
func (s server) addAdvice(step string, err error) error {
	if errors.Is(err, storeapi.ErrTooLate) {
		return err
	}
	text, noTable := s.kind.adviceFor(err)
	var gone *lostError
	var commit *CommitError
	switch {
	case noTable:
		return s.db.NotMigratedError()
	case text != "":
		return fmt.Errorf("sqlstore: %s: %s: %w", step, text, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("sqlstore: %s: the server has not answered in time: %w", step, err)
	case errors.As(err, &gone) && !errors.As(err, &commit) && s.kind.classifyDriverError(err) == OnlyLost:
		return fmt.Errorf("sqlstore: %s: the server cannot be reached, and nothing was changed: %w", step, err)
	}
	return fmt.Errorf("sqlstore: %s: %w", step, err)
}

// keyTurns lets one call of this process at a time write to a key. Waiting calls hold no
// connection: otherwise the waiters for one held key would use up the pool, and calls for other
// keys would get no connection.
type keyTurns struct {
	mu   sync.Mutex
	keys map[RecordID]*keyTurn
}

func newKeyTurns() *keyTurns { return &keyTurns{keys: make(map[RecordID]*keyTurn)} }

type keyTurn struct {
	held  chan struct{}
	users int // holders and waiters
}

// takeTurn waits for the turn of id until ctx ends.
func (t *keyTurns) takeTurn(ctx context.Context, id RecordID) (give func(), err error) {
	t.mu.Lock()
	k := t.keys[id]
	if k == nil {
		k = &keyTurn{held: make(chan struct{}, 1)}
		t.keys[id] = k
	}
	k.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(t.keys, id)
		}
	}
	select {
	case k.held <- struct{}{}:
		return func() { <-k.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
