package sqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/dberr"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/lock"
)

// waitSlice is how long one call waits for a lock on the server. So it is also how long an
// abandoned wait continues.
const waitSlice = time.Second

// connectTime limits each call that prepares a connection.
const connectTime = 10 * time.Second

// ownerConn is an owner's connection, and the lock on it.
type ownerConn struct {
	id any
	// users counts the calls in progress, under the session's mutex. The last of them removes the
	// entry, unless it has a connection.
	users int

	mu        sync.Mutex    // held during calls
	conn      *sql.Conn     // nil if there is none
	sessionID int64         // the id of the server's session
	lease     time.Duration // how long the server keeps the session idle; zero until it knows
	locked    bool
	fence     retrysafe.Fence
	closed    chan struct{} // closed when the connection is
}

// borrowConn returns the connection of an owner until runOnConn has ended. If there is none and
// create is false, it returns nil.
func (s *Session) borrowConn(r lock.Request, create bool) *ownerConn {
	id := s.lockID(r.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	k := ownerKey{r.Name, r.Owner}
	p := s.conns[k]
	if p == nil {
		if !create {
			return nil
		}
		p = &ownerConn{id: id}
		s.conns[k] = p
	}
	p.users++
	return p
}

// runOnConn runs f to its end, one at a time for each owner. It does so even if ctx has ended and
// the caller does not wait any more: a driver closes the connection when a call is cancelled, and
// the lock would be lost. runOnConn closes the connection if it took it for a caller that has left
// or did not get the lock.
func (s *Session) runOnConn(ctx context.Context, r lock.Request, p *ownerConn, f func(*ownerConn) error) error {
	answer := make(chan error)
	go func() { // it ends: each call in it has a time limit
		p.mu.Lock()
		defer p.mu.Unlock()
		fresh := p.conn == nil
		err := context.Cause(ctx) // ctx may have ended before f can run
		if err == nil {
			err = f(p)
		}
		if err != nil && (fresh || !p.locked) {
			s.closeConn(p) // before the caller gets the error
		}
		select {
		case answer <- err:
		case <-ctx.Done():
			if fresh {
				s.closeConn(p)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if p.users--; p.users == 0 && p.conn == nil {
			delete(s.conns, ownerKey{r.Name, r.Owner})
		}
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// closeConn closes the connection and removes it from the pool. The server then releases its lock,
// and no other code gets a connection with its settings. The caller holds the mutex of p.
func (s *Session) closeConn(p *ownerConn) {
	if p.conn == nil {
		return
	}
	sqlkit.Discard(p.conn)
	close(p.closed)
	p.conn, p.locked, p.fence, p.lease = nil, false, 0, 0
}

// callContext returns a context with the time limit of a call on an owner's connection. After a
// lease without an answer the lock is lost anyway; before the server knows one, nothing is locked.
func callContext(p *ownerConn) (context.Context, context.CancelFunc) {
	limit := max(p.lease, 2*waitSlice)
	if p.lease == 0 {
		limit = connectTime
	}
	return context.WithTimeout(context.Background(), limit)
}

// connect takes a connection from the pool and tells the server when to end the session. The caller
// holds the mutex of p.
func (s *Session) connect(ctx context.Context, p *ownerConn, lease time.Duration) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return explainError("take a connection", s.o.Table, err)
	}
	p.conn, p.closed, p.lease = conn, make(chan struct{}), 0
	call, cancel := callContext(p)
	defer cancel()
	if err := p.conn.QueryRowContext(call, s.sessionIDQuery()).Scan(&p.sessionID); err != nil {
		return explainError("ask for the session", s.o.Table, err)
	}
	return s.setIdleTimeout(p, lease)
}

// setIdleTimeout makes the server end the session after it has been idle for a little more than a
// lease, and reads the setting back. setIdleTimeout never shortens it. The connection's own time
// limits are for data that the server sends and no client acknowledges.
func (s *Session) setIdleTimeout(p *ownerConn, lease time.Duration) error {
	if lease <= p.lease {
		return nil
	}
	call, cancel := callContext(p)
	defer cancel()
	var set int64
	var err error
	want := (lease + lease/10).Milliseconds() + 100
	if s.dialect == MySQL {
		want = want/1000 + 1
		if _, err = p.conn.ExecContext(call, fmt.Sprintf(`SET SESSION wait_timeout = %d, autocommit = 1`, want)); err == nil {
			err = p.conn.QueryRowContext(call, `SELECT @@SESSION.wait_timeout`).Scan(&set)
		}
	} else {
		var one, two, three string
		err = p.conn.QueryRowContext(call, fmt.Sprintf(`SELECT set_config('idle_session_timeout', '%d', false), set_config('tcp_user_timeout', '%d', false),
			set_config('lock_timeout', '%d', false)`, want, want, waitSlice.Milliseconds())).Scan(&one, &two, &three)
		if err == nil {
			err = p.conn.QueryRowContext(call, `SELECT (extract(epoch FROM current_setting('idle_session_timeout')::interval) * 1000)::bigint`).Scan(&set)
		}
	}
	switch {
	case dberr.SQLState(err) == "42704":
		return fmt.Errorf("sqllock: the server cannot end idle sessions, so that a client that was cut off would hold its locks for hours; use PostgreSQL 14 or newer, or NewTable: %w", err)
	case err != nil:
		return explainError("tell the server when to end the session", s.o.Table, err)
	case set != want:
		return fmt.Errorf("sqllock: the server was asked to end idle sessions after %d and has %d, so that a client that was cut off would hold its locks for longer; use NewTable", want, set)
	}
	p.lease = lease
	return nil
}

// acquire acquires the lock. It returns [lock.ErrHeld] if another session still has it after the
// wait.
func (s *Session) acquire(p *ownerConn, wait time.Duration) error {
	call, cancel := callContext(p)
	defer cancel()
	var got sql.NullBool
	var err error
	switch {
	case s.dialect == MySQL:
		err = p.conn.QueryRowContext(call, `SELECT GET_LOCK(?, ?)`, p.id, int(wait.Seconds())).Scan(&got)
	case wait == 0:
		err = p.conn.QueryRowContext(call, `SELECT pg_try_advisory_lock($1)`, p.id).Scan(&got)
	default:
		_, err = p.conn.ExecContext(call, `SELECT pg_advisory_lock($1)`, p.id)
		if sqlkit.InTheWay(err) { // lock_timeout has passed
			return lock.ErrHeld
		}
		got.Bool = err == nil
	}
	switch {
	case err != nil:
		return explainError("take the lock", s.o.Table, err)
	case !got.Bool:
		return lock.ErrHeld
	}
	p.locked = true
	return nil
}

// raiseFence makes a fence and commits it before it returns.
func (s *Session) raiseFence(p *ownerConn, r lock.Request) error {
	call, cancel := callContext(p)
	defer cancel()
	var fence int64
	err := retryBlocked(call, func() (err error) {
		fence, err = s.queries.queryFence(call, p.conn, s.queries.raiseFence, r)
		return err
	})
	if err != nil {
		return explainError("make a fence", s.o.Table, err)
	}
	p.fence = retrysafe.Fence(fence) //nolint:gosec // it is a time
	return nil
}

var errOtherSession = errors.New("sqllock: the connection has another session than before")

// checkAlive sends a query, which restarts the server's idle time. Any error means that the lock is
// lost or cannot be relied on.
func (s *Session) checkAlive(p *ownerConn, lease time.Duration) error {
	if err := s.setIdleTimeout(p, lease); err != nil {
		return err
	}
	call, cancel := callContext(p)
	defer cancel()
	var me int64
	if err := p.conn.QueryRowContext(call, s.sessionIDQuery()).Scan(&me); err != nil {
		return err
	}
	if me != p.sessionID {
		return errOtherSession
	}
	return nil
}

// release releases the lock with a query, since the server may notice the end of a connection late.
func (s *Session) release(p *ownerConn) error {
	call, cancel := callContext(p)
	defer cancel()
	query := `SELECT pg_advisory_unlock($1)`
	if s.dialect == MySQL {
		query = `SELECT RELEASE_LOCK(?)`
	}
	var had sql.NullBool
	if err := p.conn.QueryRowContext(call, query, p.id).Scan(&had); err != nil {
		return explainError("release the lock", s.o.Table, err)
	}
	if !had.Bool {
		return lock.ErrLost
	}
	return nil
}
