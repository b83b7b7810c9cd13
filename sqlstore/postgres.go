package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
)

// postgres is the backend for a server: many write at once, and wait for each other on the row of a key only.
type postgres struct{ *Store }

const (
	// slack is how long after the time for waiting a call gives a server that does not answer.
	slack = time.Second
	// lostConnections is how often a call is made anew on another connection: after a restart of the server all that the pool holds are dead.
	lostConnections = 3
)

// read takes a connection for f.
func (p postgres) read(ctx context.Context, _ span, f func(context.Context, execer) error) error {
	wait, cancel := p.patience(ctx, time.Time{})
	defer cancel()
	call, cancel := context.WithTimeout(ctx, wait.limit+slack)
	defer cancel()
	return p.over(wait, p.again(wait, func() error {
		conn, err := p.connection(wait)
		if err != nil {
			return err
		}
		if err = f(call, conn); err != nil && conn.PingContext(call) != nil {
			discard(conn)
			return &lostError{err}
		}
		_ = conn.Close()
		return err
	}))
}

// write waits for the calls of this process that write to the same key, without a connection: those for other keys may need it.
func (p postgres) write(ctx context.Context, id recordID, notAfter time.Time, f func(context.Context, execer) (bool, error)) error {
	wait, cancel := p.patience(ctx, notAfter)
	defer cancel()
	give, err := p.turns.take(wait, id)
	if err != nil {
		return wait.inVain()
	}
	defer give()
	call, cancel := context.WithTimeout(ctx, wait.limit+slack)
	defer cancel()
	return p.over(wait, p.again(wait, func() error { return p.transaction(call, wait, notAfter, f) }))
}

// transaction runs f in one transaction on a connection of its own.
func (p postgres) transaction(call context.Context, wait patience, notAfter time.Time, f func(context.Context, execer) (bool, error)) error {
	conn, err := p.connection(wait)
	if err != nil {
		return err
	}
	commit := false
	lock := wait.left()
	if _, err = conn.ExecContext(call, beginning(lock, lock+slack.Milliseconds(), lock+5*slack.Milliseconds())); err == nil {
		commit, err = f(call, conn)
	}
	if err == nil {
		err = wait.caller.Err()
	}
	if err == nil && commit {
		var latest int64
		if !notAfter.IsZero() {
			latest = notAfter.UnixMicro()
		}
		if _, err = conn.ExecContext(call, committing(latest)); err == nil {
			_ = conn.Close()
			return nil
		}
		if sqlState(err) == stateDivision {
			err = retrysafe.ErrTooLate
		} else {
			err = &commitError{err}
		}
	}
	if _, failed := conn.ExecContext(call, "ROLLBACK"); failed != nil {
		discard(conn) // the server undoes what was not committed when it finds that nobody is there
		return &lostError{err}
	}
	_ = conn.Close()
	return err
}

// connection takes one from the pool; wait bounds that.
func (p postgres) connection(wait patience) (*sql.Conn, error) {
	conn, err := p.db.Conn(wait)
	switch {
	case err == nil:
		return conn, nil
	case wait.Err() != nil:
		return nil, wait.inVain()
	}
	return nil, &lostError{fmt.Errorf("no connection to the database: %w", err)}
}

// discard closes a connection for good.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close()
}

// again makes a call anew where it certainly was not applied, and may well be the next time: another transaction was in its way, or the
// connection was a dead one.
func (p postgres) again(wait patience, f func() error) error {
	for lost := 0; ; {
		err := f()
		var gone *lostError
		switch state := sqlState(err); {
		case err == nil, isOwn(err):
			return err
		case state == stateSerialization, state == stateDeadlock:
		case errors.As(err, &gone) && lost < lostConnections && mayPass(state):
			lost++
		default:
			return err
		}
		if !pause(wait) {
			return err
		}
	}
}

// over makes the error of a wait that was in vain; any other error stays what it is.
func (p postgres) over(wait patience, err error) error {
	state := sqlState(err)
	switch {
	case err == nil, isOwn(err):
		return err
	case wait.caller.Err() != nil, state == stateLockTimeout, state == stateCanceled:
		return wait.inVain()
	}
	return err
}

// inVain is the error of a call that has waited, and changed nothing.
func (p patience) inVain() error {
	return &lockError{ended: p.caller.Err(), after: p.limit, text: postgresWaits}
}

// lostError: the call has failed without a COMMIT, and its connection with it.
type lostError struct{ cause error }

func (e *lostError) Unwrap() error { return e.cause }
func (e *lostError) Error() string { return e.cause.Error() }

// left is how many milliseconds the server may still make this call wait: a little less than the caller has, so that it answers before the
// connection has to be given up. Zero would be without limit.
func (p patience) left() int64 {
	left := p.limit
	if end, ok := p.Deadline(); ok {
		left = time.Until(end)
	}
	if end, ok := p.caller.Deadline(); ok {
		short := time.Until(end)
		left = min(left, short-short/8)
	}
	return max(1, left.Milliseconds())
}

// commitError: a COMMIT was sent, and nobody knows what became of it.
type commitError struct{ cause error }

func (e *commitError) Unwrap() error { return e.cause }
func (e *commitError) Error() string {
	return "COMMIT was sent and not answered, so that nobody knows whether it was carried out; the same call by the same owner may be made again: " + e.cause.Error()
}

// skew implements backend.
func (p postgres) skew() string {
	return "the server's clock: the clock was set back, or another server with another clock has taken over"
}
