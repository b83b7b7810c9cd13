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

// server is the backend for databases that are servers: many write at once, and wait for each other
// on the row of a key only.
type server struct {
	*Store
	manner manner
	// looking reads many rows as they are; locking leaves out those that somebody else has locked,
	// and writes.
	looking, locking many
}

// manner is how one kind of server is talked to.
type manner interface {
	// reading runs f, which changes nothing, outside of any transaction.
	reading(ctx context.Context, conn *sql.Conn, f func(context.Context, execer) error) error
	// begin opens a transaction that is the same whatever the defaults of the session are, and that
	// ends on the server as well where nobody comes back to it.
	begin(call context.Context, conn *sql.Conn, wait patience) error
	// within is the context for what is done in a transaction: call, or wait where the server
	// itself cannot end a wait in time.
	within(call context.Context, wait patience) context.Context
	// commit ends the transaction. Where it reaches the server after notAfter (zero: no limit)
	// nothing is committed and the error is retrysafe.ErrTooLate; after any other error nobody
	// knows.
	commit(call context.Context, conn *sql.Conn, notAfter time.Time) error
	// rollback undoes the transaction. After an error the connection is of no use.
	rollback(call context.Context, conn *sql.Conn) error
	// fate is what an error of the driver means for a call that was not committed.
	fate(err error) fate
	// advice says in plain words what an error of the driver means and what to do, if that is
	// known; or that the tables are missing.
	advice(err error) (text string, noTable bool)
}

// fate is what becomes of a call that has failed without a COMMIT.
type fate uint8

const (
	final    fate = iota // the same again would fail again
	collided             // another transaction was in its way: the same again may succeed
	blocked              // so, by a lock: where there is no time to try again it has waited in vain
	timedOut             // the server has ended the wait for a lock with the time of the call
	// the server has said nothing, or that it ends the connection: another one may be better
	onlyLost
)

const (
	// slack is how long after the time for waiting a call gives a server that does not answer.
	slack = time.Second
	// lostConnections is how often a call is made anew on another connection: after a restart of
	// the server all that the pool holds are dead.
	lostConnections = 3
)

// read takes a connection for f.
func (s server) read(ctx context.Context, _ span, f func(context.Context, execer) error) error {
	wait, cancel := s.patience(ctx, time.Time{})
	defer cancel()
	call, cancel := context.WithTimeout(ctx, wait.limit+slack)
	defer cancel()
	return s.over(wait, s.again(wait, func() error {
		conn, err := s.connection(wait)
		if err != nil {
			return err
		}
		if err = s.manner.reading(call, conn, f); err != nil && conn.PingContext(call) != nil {
			discard(conn)
			return &lostError{err}
		}
		_ = conn.Close()
		return err
	}))
}

// write waits for the calls of this process that write to the same key, without a connection: those
// for other keys may need it.
func (s server) write(ctx context.Context, id recordID, notAfter time.Time, f func(context.Context, execer) (bool, error)) error {
	wait, cancel := s.patience(ctx, notAfter)
	defer cancel()
	give, err := s.turns.take(wait, id)
	if err != nil {
		return wait.inVain()
	}
	defer give()
	call, cancel := context.WithTimeout(ctx, wait.limit+slack)
	defer cancel()
	return s.over(wait, s.again(wait, func() error { return s.transaction(call, wait, notAfter, f) }))
}

// transaction runs f in one transaction on a connection of its own.
func (s server) transaction(call context.Context, wait patience, notAfter time.Time, f func(context.Context, execer) (bool, error)) error {
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
		if !errors.Is(err, retrysafe.ErrTooLate) {
			err = &commitError{err}
		}
	}
	if s.manner.rollback(call, conn) != nil {
		discard(conn) // the server undoes what was not committed when it finds that nobody is there
		if err == nil {
			return nil // there was nothing to commit
		}
		return &lostError{err}
	}
	_ = conn.Close()
	return err
}

// connection takes one from the pool; wait bounds that.
func (s server) connection(wait patience) (*sql.Conn, error) {
	conn, err := s.calls.Conn(wait)
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

// again makes a call anew where it certainly was not applied, and may well be the next time:
// another transaction was in its way, or the connection was a dead one.
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
		if !pause(wait) {
			return err
		}
	}
}

// over makes the error of a wait that was in vain; any other error stays what it is.
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

// inVain is the error of a call that has waited, and changed nothing.
func (p patience) inVain() error {
	return &lockError{ended: p.caller.Err(), after: p.limit, text: serverWaits}
}

const serverWaits = "other transactions have held the row of this key, or all connections to the database, or the server does not answer, for %v, " +
	"and nothing was changed; look for a transaction that was left open (pg_stat_activity, information_schema.innodb_trx), or give the pool more connections"

// left is how many milliseconds the server may still make this call wait: a little less than the
// caller has, so that it answers before the connection has to be given up. Zero would be without
// limit.
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

// latest is notAfter as a server takes it: microseconds, or zero.
func latest(notAfter time.Time) int64 {
	if notAfter.IsZero() {
		return 0
	}
	return notAfter.UnixMicro()
}

// fateOf is what an error means for a call that was not committed.
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
