package sqllock

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Session keeps locks as locks of database sessions: advisory locks of PostgreSQL 14 or newer,
// GET_LOCK of MySQL and MariaDB. It is safe for concurrent use.
//
// Each lock has its own connection, which is taken from the pool by TryLock, kept while the lock is
// held or waited for, and then closed. Give locks their own *sql.DB, or a pool with room for them:
// work that waits for a connection while it holds a lock can wait for ever. Session tells the
// server to end a session that was idle for a lease, and refuses a server that does not support
// that: otherwise a client that was cut off would hold its locks for hours. It also refuses a
// pooler that shares a session between transactions.
//
// The server identifies a lock by a hash of table and name. On PostgreSQL the hash has 64 bits, and
// locks belong to one database. On MySQL it has 128 bits, and locks belong to the whole server, so
// the database is a part of it. If two names have the same hash, or another program's lock does,
// they only wait for each other. The fence is in a row of the table, which must exist and which no
// [Table] may use. On a cluster of servers a lock exists only on the server that was asked: all
// processes must use the same one.
type Session struct {
	db      *sql.DB
	dialect Dialect
	o       Options
	queries queries

	mu            sync.Mutex
	conns         map[ownerKey]*ownerConn
	poolerChecked bool   // that no pooler shares our sessions
	database      string // the rest of what a lock's name is hashed with
}

type ownerKey struct {
	name  string
	owner storeapi.Owner
}

var _ lock.Backend = (*Session)(nil)

// NewSession returns a backend on a database. It sends no query; call [Session.Migrate] once, or
// run [SchemaSQL].
func NewSession(db *sql.DB, d Dialect, o *Options) (*Session, error) {
	if db == nil {
		return nil, errors.New("sqllock: NewSession needs a database")
	}
	own, err := checkedOptions(o, d)
	if err != nil {
		return nil, err
	}
	if d == SQLite {
		return nil, errors.New("sqllock: SQLite has no locks of sessions; use NewTable")
	}
	return &Session{db: db, dialect: d, o: own, queries: queriesFor(d, own.Table), conns: make(map[ownerKey]*ownerConn)}, nil
}

// Migrate creates the table if it does not exist. Several processes can call it at once.
func (s *Session) Migrate(ctx context.Context) error {
	return createTable(ctx, s.db, s.dialect, s.o.Table)
}

// sessionIDQuery returns the query for the id of the server's session.
func (s *Session) sessionIDQuery() string {
	if s.dialect == MySQL {
		return `SELECT CONNECTION_ID()`
	}
	return `SELECT pg_backend_pid()`
}

var errPooled = errors.New("sqllock: between this program and the database is a pooler that gives one session to several connections, so that locks of sessions mean nothing; " +
	"let locks go to the database itself, or to a pool in session mode, or use NewTable")

// checkPooler checks once whether a connection keeps its session while another one is in a
// transaction.
func (s *Session) checkPooler(ctx context.Context) error {
	s.mu.Lock()
	done := s.poolerChecked
	s.mu.Unlock()
	if done {
		return nil
	}
	if s.db.Stats().MaxOpenConnections == 1 {
		return errors.New("sqllock: the pool has one connection, which one lock would take; allow more")
	}
	var before, other, after int64
	var space sql.NullString
	err := func() error {
		one, err := s.db.Conn(ctx)
		if err != nil {
			return err
		}
		defer one.Close() //nolint:errcheck // it goes back to the pool
		if err := one.QueryRowContext(ctx, s.sessionIDQuery()).Scan(&before); err != nil {
			return err
		}
		tx, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // nothing was done in it
		if err := tx.QueryRowContext(ctx, s.sessionIDQuery()).Scan(&other); err != nil {
			return err
		}
		if err := one.QueryRowContext(ctx, s.sessionIDQuery()).Scan(&after); err != nil {
			return err
		}
		if s.dialect == MySQL {
			return tx.QueryRowContext(ctx, `SELECT DATABASE()`).Scan(&space)
		}
		return nil
	}()
	switch {
	case err != nil:
		return explainError("look whose the sessions are", s.o.Table, err)
	case before == other || before != after:
		return errPooled
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.poolerChecked, s.database = true, space.String
	return nil
}

// lockID returns the server's id for the lock.
func (s *Session) lockID(name string) any {
	s.mu.Lock()
	sum := sha256.Sum256(fmt.Appendf(nil, "retrysafe\x00%s\x00%s\x00%s", s.database, s.o.Table, name))
	s.mu.Unlock()
	if s.dialect == MySQL {
		return "retrysafe:" + hex.EncodeToString(sum[:16])
	}
	return int64(binary.BigEndian.Uint64(sum[:8])) //nolint:gosec // the conversion keeps all 64 bits
}

// TryLock implements [lock.Backend].
func (s *Session) TryLock(ctx context.Context, r lock.Request) (lock.Grant, error) {
	if ctx.Err() != nil {
		return lock.Grant{}, context.Cause(ctx)
	}
	if err := s.checkPooler(ctx); err != nil {
		return lock.Grant{}, err
	}
	var g lock.Grant
	err := s.runOnConn(ctx, r, s.borrowConn(r, true), func(p *ownerConn) error {
		if p.conn != nil && s.checkAlive(p, r.Lease) != nil {
			s.closeConn(p) // another try is in progress on it
		}
		if p.conn == nil {
			if err := s.connect(ctx, p, r.Lease); err != nil {
				return err
			}
		}
		if !p.locked {
			if err := s.acquire(p, 0); err != nil {
				return err
			}
		}
		if p.fence == 0 {
			if err := s.raiseFence(p, r); err != nil {
				return err
			}
		}
		g = lock.Grant{Fence: p.fence, Done: p.closed}
		return nil
	})
	if err != nil {
		return lock.Grant{}, err
	}
	return g, nil
}

// Wait implements [lock.Backend]. It acquires the lock for the owner's next TryLock.
func (s *Session) Wait(ctx context.Context, r lock.Request) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.checkPooler(ctx); err != nil {
		return err
	}
	return s.runOnConn(ctx, r, s.borrowConn(r, true), func(p *ownerConn) error {
		if p.conn == nil {
			if err := s.connect(ctx, p, r.Lease); err != nil {
				return err
			}
		}
		for !p.locked {
			err := s.acquire(p, waitSlice)
			if err != nil && !errors.Is(err, lock.ErrHeld) {
				return err
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		return nil
	})
}

// Extend implements [lock.Backend]. If the connection fails, the lock is lost, and the grant's Done
// is closed.
func (s *Session) Extend(ctx context.Context, r lock.Request) error {
	return s.runIfConnected(ctx, r, func(p *ownerConn) error {
		if p.fence == 0 {
			return lock.ErrLost
		}
		if s.checkAlive(p, r.Lease) != nil {
			s.closeConn(p)
			return lock.ErrLost
		}
		return nil
	})
}

// Unlock implements [lock.Backend].
func (s *Session) Unlock(ctx context.Context, r lock.Request) error {
	return s.runIfConnected(ctx, r, func(p *ownerConn) error {
		defer s.closeConn(p)
		if !p.locked {
			return nil
		}
		return s.release(p)
	})
}

// runIfConnected runs f on the owner's connection. It returns [lock.ErrLost] if the owner has none.
func (s *Session) runIfConnected(ctx context.Context, r lock.Request, f func(*ownerConn) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p := s.borrowConn(r, false)
	if p == nil {
		return lock.ErrLost
	}
	return s.runOnConn(ctx, r, p, func(p *ownerConn) error {
		if p.conn == nil {
			return lock.ErrLost
		}
		return f(p)
	})
}
