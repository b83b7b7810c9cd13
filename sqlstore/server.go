package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/storeapi"
)

// server is the backend for database servers: many callers write concurrently, and wait for each
// other only on the row of a key.
type server struct {
	db     *database
	manner manner
	turns  *keyTurns
	// looking reads many rows without locks; locking skips rows that another transaction has
	// locked, and writes.
	looking, locking manyRows
}

// manner is what differs between the kinds of server.
type manner interface {
	// readOn runs f, which changes nothing, outside of any transaction.
	readOn(ctx context.Context, conn *sql.Conn, f func(context.Context, sqlkit.Execer) error) error
	// begin opens a transaction that does not depend on the session's defaults, and that also ends
	// on the server if its client never comes back.
	begin(call context.Context, conn *sql.Conn, wait patience) error
	// within returns the context for statements in a transaction: call, or wait if the server
	// itself cannot end a wait in time.
	within(call context.Context, wait patience) context.Context
	// commit ends the transaction. If it reaches the server after notAfter (zero: no limit),
	// nothing is committed and the error is storeapi.ErrTooLate. After any other error the outcome
	// is unknown.
	commit(call context.Context, conn *sql.Conn, notAfter time.Time) error
	// rollback rolls the transaction back. After an error the connection is unusable.
	rollback(call context.Context, conn *sql.Conn) error
	// fate classifies an error of the driver for a call that was not committed.
	fate(err error) fate
	// advice says what an error of the driver means and what to do, if that is known. noTable
	// reports whether the tables are missing.
	advice(err error) (text string, noTable bool)
}

// fate is the class of an error that came before the COMMIT.
type fate uint8

const (
	final    fate = iota // the same call would fail again
	collided             // another transaction was in the way; the same call may succeed
	// as collided, because of a lock; without time for another try, the call has waited in vain
	blocked
	timedOut // the server has ended the wait for a lock at the call's time limit
	// the server did not answer, or closes the connection; another connection may work
	onlyLost
)

const (
	// lostConnections is how often a call is tried again on another connection: after a restart of
	// the server all connections in the pool are dead.
	lostConnections = 3
)

// read runs f on a connection of the pool.
func (s server) read(ctx context.Context, _ span, f func(context.Context, sqlkit.Execer) error) error {
	wait, cancel := s.db.patience(ctx, time.Time{})
	defer cancel()
	call, cancel := context.WithTimeout(ctx, wait.limit+slack)
	defer cancel()
	for tries := (serverTries{s, wait, 0}); ; {
		err := s.readOnce(call, wait, f)
		if !tries.mayRepeat(err) {
			return s.waitError(wait, err)
		}
	}
}

func (s server) readOnce(call context.Context, wait patience, f func(context.Context, sqlkit.Execer) error) error {
	conn, err := s.takeConnection(wait)
	if err != nil {
		return err
	}
	if err = s.manner.readOn(call, conn, f); err != nil && conn.PingContext(call) != nil {
		sqlkit.Discard(conn)
		return &lostError{err}
	}
	_ = conn.Close()
	return err
}

// lookAtOne implements backend.
func (s server) lookAtOne(ctx context.Context, id recordID) (found loaded, err error) {
	err = s.read(ctx, brief, func(ctx context.Context, db sqlkit.Execer) error {
		found, err = s.db.load(ctx, db, s.db.queries().load, id)
		return err
	})
	return found, err
}

// lookAtMany implements backend.
func (s server) lookAtMany(ctx context.Context, looks []*look) error {
	return s.read(ctx, brief, func(ctx context.Context, db sqlkit.Execer) (err error) {
		if l := looks[0]; len(looks) == 1 {
			l.found, err = s.db.load(ctx, db, s.db.queries().load, l.id)
			return err
		}
		return lookAtRows(ctx, db, s.looking, looks)
	})
}

// write runs f in a transaction.
func (s server) write(ctx context.Context, id recordID, notAfter time.Time, f func(context.Context, sqlkit.Execer) (bool, error)) error {
	wait, cancel := s.db.patience(ctx, notAfter)
	defer cancel()
	return s.writeWithin(wait, id, notAfter, f)
}

// writeWithin is write within wait. It first waits for this process's other writers of the same
// key, without holding a connection: calls for other keys may need it.
func (s server) writeWithin(wait patience, id recordID, notAfter time.Time, f func(context.Context, sqlkit.Execer) (bool, error)) error {
	giveTurn, err := s.turns.takeTurn(wait, id)
	if err != nil {
		return wait.inVain()
	}
	defer giveTurn()
	call, cancel := context.WithTimeout(wait.caller, wait.limit+slack)
	defer cancel()
	for tries := (serverTries{s, wait, 0}); ; {
		tx, err := s.beginTransaction(call, wait)
		if err == nil {
			var commit bool
			commit, err = f(tx.within, tx.conn)
			err = tx.endTransaction(notAfter, commit, err)
		}
		if !tries.mayRepeat(err) {
			return s.waitError(wait, err)
		}
	}
}

// changeOne implements backend.
func (s server) changeOne(c *change) error {
	return s.write(c.ctx, c.id, c.notAfter, func(ctx context.Context, w sqlkit.Execer) (bool, error) { return s.db.changeRow(ctx, w, c) })
}

// rowWait is the longest that grouped changes wait for a row: a row that is held longer would delay
// all of them. MySQL rounds it to whole seconds.
const rowWait = 50 * time.Millisecond

// changeMany makes changes in one transaction, with few statements whatever their number.
func (s server) changeMany(changes []*change) error {
	wait, cancel := s.db.patience(context.Background(), time.Time{})
	defer cancel()
	wait.lock = rowWait
	call, cancel := context.WithTimeout(context.Background(), wait.limit+slack)
	defer cancel()
	for lost := 0; ; lost++ {
		tx, err := s.beginTransaction(call, wait)
		if err == nil {
			var commit bool
			commit, err = s.changeBegun(tx, beginChanges(changes))
			err = tx.endTransaction(earliestEnd(changes), commit, err)
		}
		var gone *lostError
		if lost == lostConnections || isOwn(err) || !errors.As(err, &gone) || s.manner.fate(err) != onlyLost || !sqlkit.Pause(wait) {
			return err
		}
	}
}

// changeBegun makes the changes that have begun. For one, the statements for many are slower on
// PostgreSQL.
func (s server) changeBegun(tx *serverTx, changes []*change) (commit bool, err error) {
	switch {
	case len(changes) == 0:
		return false, nil
	case len(changes) == 1 && s.db.dialect == dbtx.PostgreSQL:
		return s.db.changeRow(tx.within, tx.conn, changes[0])
	}
	return changeRows(tx.within, tx.conn, s.locking, changes)
}

// tellsInserted implements backend.
func (s server) tellsInserted() bool { return s.locking.tellsInserted() }

// serverTx is a transaction on its own connection.
type serverTx struct {
	server
	conn   *sql.Conn
	call   context.Context
	within context.Context // for the statements between its begin and its end
	wait   patience
}

// beginTransaction opens a transaction.
func (s server) beginTransaction(call context.Context, wait patience) (*serverTx, error) {
	conn, err := s.takeConnection(wait)
	if err != nil {
		return nil, err
	}
	tx := &serverTx{s, conn, call, s.manner.within(call, wait), wait}
	if err := s.manner.begin(call, conn, wait); err != nil {
		return nil, tx.rollBack(err)
	}
	return tx, nil
}

// endTransaction commits if commit is set and failed, the error of a statement, is nil. Otherwise
// it rolls back.
func (t *serverTx) endTransaction(notAfter time.Time, commit bool, failed error) error {
	err := failed
	if err != nil && t.within.Err() != nil && t.call.Err() == nil {
		err = t.wait.inVain()
	}
	if err == nil {
		err = t.wait.caller.Err()
	}
	if err == nil && commit {
		if err = t.manner.commit(t.call, t.conn, notAfter); err == nil {
			_ = t.conn.Close()
			return nil
		}
		if !errors.Is(err, storeapi.ErrTooLate) {
			err = &commitError{err}
		}
	}
	return t.rollBack(err)
}

// rollBack rolls back, and returns err, for which there is nothing to commit.
func (t *serverTx) rollBack(err error) error {
	if t.manner.rollback(t.call, t.conn) != nil {
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
func (s server) takeConnection(wait patience) (*sql.Conn, error) {
	conn, err := s.db.calls.Conn(wait)
	switch {
	case err == nil:
		return conn, nil
	case wait.Err() != nil:
		return nil, wait.inVain()
	}
	return nil, &lostError{fmt.Errorf("no connection to the database: %w", err)}
}

// serverTries counts the tries of one call.
type serverTries struct {
	server
	wait patience
	lost int // how many have lost their connection
}

// mayRepeat reports, after a pause, whether the call is to be made again: it certainly had no
// effect and may succeed the next time, since another transaction was in the way, or the connection
// was dead.
func (t *serverTries) mayRepeat(err error) bool {
	if err == nil || isOwn(err) {
		return false
	}
	var gone *lostError
	switch fate := t.manner.fate(err); {
	case fate == blocked:
	case errors.As(err, &gone) && t.lost < lostConnections && fate == onlyLost:
		t.lost++
	default:
		return false
	}
	return sqlkit.Pause(t.wait)
}

// waitError returns the error of a wait in vain, or err unchanged if it is another error.
func (s server) waitError(wait patience, err error) error {
	fate := s.manner.fate(err)
	switch {
	case err == nil, isOwn(err):
		return err
	case wait.caller.Err() != nil, fate == timedOut, fate == blocked:
		return wait.inVain()
	}
	return err
}

// left returns how many milliseconds the server may still let this call wait: slightly less than
// the caller has, so that the server answers before the connection has to be given up. It is at
// least 1, since zero would mean no limit.
func (p patience) left() int64 {
	left := p.limit
	if end, ok := p.Deadline(); ok {
		left = time.Until(end)
	}
	if end, ok := p.caller.Deadline(); ok {
		short := time.Until(end)
		left = min(left, short-short/8)
	}
	if p.lock > 0 {
		left = min(left, p.lock)
	}
	return max(1, left.Milliseconds())
}

// latest converts notAfter to microseconds; zero: no limit.
func latest(notAfter time.Time) int64 {
	if notAfter.IsZero() {
		return 0
	}
	return notAfter.UnixMicro()
}

// serverFates returns the function that classifies a server's errors; not ok: SQLite is no server.
func (d *database) serverFates() (fateOf func(error) fate, ok bool) {
	on, ok := d.backend.(interface{ fateOf(error) fate })
	if !ok {
		return nil, false
	}
	return on.fateOf, true
}

// fateOf classifies an error for a call that was not committed.
func (s server) fateOf(err error) fate {
	if err == nil || isOwn(err) {
		return final
	}
	return s.manner.fate(err)
}

// skew implements backend.
func (s server) skew() string {
	return "the server's clock: the clock was set back, or another server with another clock has taken over"
}

// explain adds advice to err.
func (s server) explain(step string, err error) error {
	if errors.Is(err, storeapi.ErrTooLate) {
		return err
	}
	text, noTable := s.manner.advice(err)
	var gone *lostError
	var commit *commitError
	switch {
	case noTable:
		return s.db.notMigrated()
	case text != "":
		return fmt.Errorf("sqlstore: %s: %s: %w", step, text, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("sqlstore: %s: the server has not answered in time: %w", step, err)
	case errors.As(err, &gone) && !errors.As(err, &commit) && s.manner.fate(err) == onlyLost:
		return fmt.Errorf("sqlstore: %s: the server cannot be reached, and nothing was changed: %w", step, err)
	}
	return fmt.Errorf("sqlstore: %s: %w", step, err)
}

// keyTurns lets one call of this process at a time write to a key. Waiting calls hold no connection:
// otherwise the waiters for one held key would use up the pool, and calls for other keys would get
// no connection.
type keyTurns struct {
	mu   sync.Mutex
	keys map[recordID]*keyTurn
}

func newKeyTurns() *keyTurns { return &keyTurns{keys: make(map[recordID]*keyTurn)} }

type keyTurn struct {
	held  chan struct{}
	users int // holders and waiters
}

// takeTurn waits for the turn of id until ctx ends.
func (t *keyTurns) takeTurn(ctx context.Context, id recordID) (give func(), err error) {
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
