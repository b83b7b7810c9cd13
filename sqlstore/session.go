package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

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
