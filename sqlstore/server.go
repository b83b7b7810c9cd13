package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/storeapi"
)

// server is the backend for database servers: many callers write concurrently, and wait for each
// other only on the row of a key.
type server struct {
	db     *database
	manner manner
	turns  *turns
	// looking reads many rows without locks; locking skips rows that another transaction has
	// locked, and writes.
	looking, locking many
}

// manner is what differs between the kinds of server.
type manner interface {
	// reading runs f, which changes nothing, outside of any transaction.
	reading(ctx context.Context, conn *sql.Conn, f func(context.Context, sqlkit.Execer) error) error
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
	return s.over(wait, s.again(wait, func() error {
		conn, err := s.connection(wait)
		if err != nil {
			return err
		}
		if err = s.manner.reading(call, conn, f); err != nil && conn.PingContext(call) != nil {
			sqlkit.Discard(conn)
			return &lostError{err}
		}
		_ = conn.Close()
		return err
	}))
}

// write first waits for this process's other writers of the same key, without holding a connection:
// calls for other keys may need it.
func (s server) write(ctx context.Context, id recordID, notAfter time.Time, f func(context.Context, sqlkit.Execer) (bool, error)) error {
	wait, cancel := s.db.patience(ctx, notAfter)
	defer cancel()
	return s.writeWithin(wait, id, notAfter, f)
}

// writeWithin is write within wait.
func (s server) writeWithin(wait patience, id recordID, notAfter time.Time, f func(context.Context, sqlkit.Execer) (bool, error)) error {
	give, err := s.turns.take(wait, id)
	if err != nil {
		return wait.inVain()
	}
	defer give()
	call, cancel := context.WithTimeout(wait.caller, wait.limit+slack)
	defer cancel()
	return s.over(wait, s.again(wait, func() error { return s.transaction(call, wait, notAfter, f) }))
}

// transaction runs f in one transaction on its own connection.
func (s server) transaction(call context.Context, wait patience, notAfter time.Time, f func(context.Context, sqlkit.Execer) (bool, error)) error {
	conn, err := s.connection(wait)
	if err != nil {
		return err
	}
	commit := false
	if err = s.manner.begin(call, conn, wait); err == nil {
		within := s.manner.within(call, wait)
		commit, err = f(within, conn)
		if err != nil && within.Err() != nil && call.Err() == nil {
			err = wait.inVain()
		}
	}
	if err == nil {
		err = wait.caller.Err()
	}
	if err == nil && commit {
		if err = s.manner.commit(call, conn, notAfter); err == nil {
			_ = conn.Close()
			return nil
		}
		if !errors.Is(err, storeapi.ErrTooLate) {
			err = &commitError{err}
		}
	}
	if s.manner.rollback(call, conn) != nil {
		sqlkit.Discard(conn) // the server rolls back when it notices that the client is gone
		if err == nil {
			return nil // there was nothing to commit
		}
		return &lostError{err}
	}
	_ = conn.Close()
	return err
}

// connection takes a connection from the pool, within wait.
func (s server) connection(wait patience) (*sql.Conn, error) {
	conn, err := s.db.calls.Conn(wait)
	switch {
	case err == nil:
		return conn, nil
	case wait.Err() != nil:
		return nil, wait.inVain()
	}
	return nil, &lostError{fmt.Errorf("no connection to the database: %w", err)}
}

// again runs f again if it certainly had no effect and may succeed the next time: another
// transaction was in the way, or the connection was dead.
func (s server) again(wait patience, f func() error) error {
	for lost := 0; ; {
		err := f()
		var gone *lostError
		switch fate := s.manner.fate(err); {
		case err == nil, isOwn(err):
			return err
		case fate == blocked:
		case errors.As(err, &gone) && lost < lostConnections && fate == onlyLost:
			lost++
		default:
			return err
		}
		if !sqlkit.Pause(wait) {
			return err
		}
	}
}

// over returns the error of a wait in vain, or err unchanged if it is another error.
func (s server) over(wait patience, err error) error {
	fate := s.manner.fate(err)
	switch {
	case err == nil, isOwn(err):
		return err
	case wait.caller.Err() != nil, fate == timedOut, fate == blocked:
		return wait.inVain()
	}
	return err
}

// inVain returns the error of a call that has waited and changed nothing.
func (p patience) inVain() error {
	return &lockError{ended: p.caller.Err(), after: p.limit, text: serverWaits}
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

// session is a pooled connection for one call. SQLite's own busy handler is off: it sleeps without
// regard to the caller's context, so this package waits instead.
type session struct {
	*sql.Conn
	timeout int64 // the caller's busy_timeout in milliseconds
	set     int64 // the current busy_timeout
}

// wait sets SQLite's own wait for locks.
func (se *session) wait(ctx context.Context, d time.Duration) error {
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

// end returns the connection to the pool in its original state.
func (se *session) end(ctx context.Context) {
	if err := se.wait(ctx, time.Duration(se.timeout)*time.Millisecond); err != nil && !errors.Is(err, sql.ErrConnDone) {
		sqlkit.Discard(se.Conn)
		return
	}
	_ = se.Close()
}

// patience is the caller's context, limited to the longest wait for a lock.
type patience struct {
	context.Context
	caller context.Context
	limit  time.Duration
	// the longest wait for a lock on a server, if shorter than limit; zero: the same
	lock time.Duration
}

// retry calls f until no other transaction is in the way, or wait ends.
func retry(wait patience, f func() error) error {
	for {
		err := f()
		if err == nil || !sqliteBusy(err) || !sqlkit.Pause(wait) {
			return err
		}
	}
}

// over returns the error of a wait in vain, or err unchanged if it is another error.
func (p patience) over(err error) error {
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

// session takes a connection; ctx limits the wait for it.
func (d *database) session(ctx context.Context) (*session, error) {
	conn, err := d.pool.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("no connection to the database: %w", err)
	}
	se := &session{Conn: conn}
	if err = conn.QueryRowContext(context.WithoutCancel(ctx), "PRAGMA busy_timeout").Scan(&se.timeout); err == nil {
		se.set = se.timeout
		err = se.wait(ctx, 0)
	}
	if err != nil {
		sqlkit.Discard(se.Conn)
		return nil, err
	}
	return se, nil
}

// patience starts the wait now. notAfter is on the store's clock; zero: it sets no limit.
func (d *database) patience(ctx context.Context, notAfter time.Time) (p patience, cancel context.CancelFunc) {
	limit := d.lockWait
	if !notAfter.IsZero() {
		limit = min(limit, max(0, notAfter.Sub(d.clock()))+time.Millisecond)
	}
	return patienceOf(ctx, limit)
}

// longestWait is a wait of which two can be added.
const longestWait = 100 * 365 * 24 * time.Hour

// patienceOf starts a wait of at most limit.
func patienceOf(ctx context.Context, limit time.Duration) (p patience, cancel context.CancelFunc) {
	p = patience{caller: ctx, limit: limit}
	p.Context, cancel = context.WithTimeout(ctx, limit)
	return p, cancel
}

// strayLease is the lease of a record that the work has committed itself. If this process dies
// before it corrects the record, the record looks as if it were in progress for that long. If a
// transaction ends properly, no other process ever sees its lease.
const strayLease = 30 * time.Second
