package sqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/dberr"
	"github.com/retrysafe/retrysafe/lock"
)

// turn is how long the server waits for a lock before it is asked again, and so how long a wait
// that was given up goes on.
const turn = time.Second

// pin is what an owner has: a connection, and the lock on it.
type pin struct {
	id any
	// under the session's mutex: it is forgotten with the last of them, unless it has a connection
	users int

	mu    sync.Mutex    // held during calls
	conn  *sql.Conn     // nil: none
	me    int64         // the server's session
	lease time.Duration // for which the server keeps it without a word
	taken bool
	fence retrysafe.Fence
	gone  chan struct{} // closed with the connection
}

// open is the pin of an owner until do has ended; nil where there is none and none is to be made.
func (s *Session) open(r lock.Request, create bool) *pin {
	id := s.lockID(r.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	k := pinKey{r.Name, r.Owner}
	p := s.pins[k]
	if p == nil {
		if !create {
			return nil
		}
		p = &pin{id: id}
		s.pins[k] = p
	}
	p.users++
	return p
}

// do runs f, one at a time for a pin, to its end, also when ctx has ended and nobody waits for it:
// a driver whose call is broken off would close the connection, and the lock would be gone. What
// was taken for a caller that has left, or did not get the lock, is dropped.
func (s *Session) do(ctx context.Context, r lock.Request, p *pin, f func(*pin) error) error {
	answer := make(chan error)
	go func() { // it ends: each call in it has a limit
		p.mu.Lock()
		defer p.mu.Unlock()
		fresh := p.conn == nil
		err := context.Cause(ctx) // it may have ended before its turn
		if err == nil {
			err = f(p)
		}
		if err != nil && (fresh || !p.taken) {
			s.drop(p) // before anybody is told
		}
		select {
		case answer <- err:
		case <-ctx.Done():
			if fresh {
				s.drop(p)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if p.users--; p.users == 0 && p.conn == nil {
			delete(s.pins, pinKey{r.Name, r.Owner})
		}
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// drop closes the connection for good: the server lets go of what it had, and nobody meets its
// settings. The pin's mutex is held.
func (s *Session) drop(p *pin) {
	if p.conn == nil {
		return
	}
	_ = p.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = p.conn.Close()
	close(p.gone)
	p.conn, p.taken, p.fence, p.lease = nil, false, 0, 0
}

// limited is the time of a call on a pinned connection: after a lease without an answer the lock is
// lost anyway.
func limited(p *pin) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), max(p.lease, 2*turn))
}

// connect takes a connection and tells the server when to end the session. The pin's mutex is held.
func (s *Session) connect(ctx context.Context, p *pin, lease time.Duration) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return explain("take a connection", s.o.Table, err)
	}
	p.conn, p.gone, p.lease = conn, make(chan struct{}), 0
	if err := s.keep(p, lease); err != nil {
		return err
	}
	call, cancel := limited(p)
	defer cancel()
	return explain("ask for the session", s.o.Table, p.conn.QueryRowContext(call, s.whoami()).Scan(&p.me))
}

// keep lets the server end the session when it has heard nothing of us for a lease and a little
// more, and reads back whether it will. It is never made shorter. The connection's own time limits
// are for what the server sends, and nobody takes.
func (s *Session) keep(p *pin, lease time.Duration) error {
	if lease <= p.lease {
		return nil
	}
	call, cancel := limited(p)
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
			set_config('lock_timeout', '%d', false)`, want, want, turn.Milliseconds())).Scan(&one, &two, &three)
		if err == nil {
			err = p.conn.QueryRowContext(call, `SELECT (extract(epoch FROM current_setting('idle_session_timeout')::interval) * 1000)::bigint`).Scan(&set)
		}
	}
	switch {
	case dberr.SQLState(err) == "42704":
		return fmt.Errorf("sqllock: the server cannot end idle sessions, so that a client that was cut off would hold its locks for hours; use PostgreSQL 14 or newer, or NewTable: %w", err)
	case err != nil:
		return explain("tell the server when to end the session", s.o.Table, err)
	case set != want:
		return fmt.Errorf("sqllock: the server was told to end idle sessions after %d and has %d, so that a client that was cut off would hold its locks for longer; use NewTable", want, set)
	}
	p.lease = lease
	return nil
}

// take takes the lock; [lock.ErrHeld] where another session has it, and has it still after the
// time.
func (s *Session) take(p *pin, wait time.Duration) error {
	call, cancel := limited(p)
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
		if inTheWay(err) { // the time is over
			return lock.ErrHeld
		}
		got.Bool = err == nil
	}
	switch {
	case err != nil:
		return explain("take the lock", s.o.Table, err)
	case !got.Bool:
		return lock.ErrHeld
	}
	p.taken = true
	return nil
}

// raise makes a fence, which is committed before anybody is told of it.
func (s *Session) raise(p *pin, r lock.Request) error {
	call, cancel := limited(p)
	defer cancel()
	var fence int64
	err := patient(call, func() error {
		args := []any{[]byte(r.Name), r.Owner[:], r.Lease.Microseconds()}
		if s.dialect != MySQL {
			return p.conn.QueryRowContext(call, s.queries.raise, args...).Scan(&fence)
		}
		if _, err := p.conn.ExecContext(call, s.queries.raise, args...); err != nil {
			return err
		}
		return p.conn.QueryRowContext(call, s.queries.look, args[:2]...).Scan(&fence)
	})
	if err != nil {
		return explain("make a fence", s.o.Table, err)
	}
	p.fence = retrysafe.Fence(fence) //nolint:gosec // it is a clock
	return nil
}

var errOther = errors.New("sqllock: the connection has another session than before")

// beat is a word to the server, which begins the time of the lease anew. Any error means that the
// lock is lost, or cannot be relied on.
func (s *Session) beat(p *pin, lease time.Duration) error {
	if err := s.keep(p, lease); err != nil {
		return err
	}
	call, cancel := limited(p)
	defer cancel()
	var me int64
	if err := p.conn.QueryRowContext(call, s.whoami()).Scan(&me); err != nil {
		return err
	}
	if me != p.me {
		return errOther
	}
	return nil
}

// release gives the lock back by a word, since the server may take its time to notice the end of a
// connection.
func (s *Session) release(p *pin) error {
	call, cancel := limited(p)
	defer cancel()
	query := `SELECT pg_advisory_unlock($1)`
	if s.dialect == MySQL {
		query = `SELECT RELEASE_LOCK(?)`
	}
	var had sql.NullBool
	if err := p.conn.QueryRowContext(call, query, p.id).Scan(&had); err != nil {
		return explain("release the lock", s.o.Table, err)
	}
	if !had.Bool {
		return lock.ErrLost
	}
	return nil
}
