package sqltest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"testing"
)

// Fault is called at each step of a driver: "open", "begin", "commit", "rollback", or the text of a
// statement. run does the step. A fault may skip the step, do it and return an error, or do
// something around it.
type Fault func(step string, run func() error) error

// faultyDriver wraps another driver.
type faultyDriver struct {
	inner driver.Driver
	dsn   string
	hook  *atomic.Pointer[Fault]
}

// OpenFaulty opens a SQLite file with a driver that calls the current fault. set sets it; there is
// none at first.
func OpenFaulty(t *testing.T, dsn string) (db *sql.DB, set func(Fault)) {
	t.Helper()
	db, set = FaultyDB(Open(t, "sqlite", dsn).Driver(), dsn)
	t.Cleanup(func() { _ = db.Close() })
	return db, set
}

// FaultyDB returns a pool whose driver calls the current fault. The caller closes it.
func FaultyDB(inner driver.Driver, dsn string) (db *sql.DB, set func(Fault)) {
	hook := new(atomic.Pointer[Fault])
	return sql.OpenDB(&faultyDriver{inner, dsn, hook}), func(f Fault) {
		if f == nil {
			hook.Store(nil)
			return
		}
		hook.Store(&f)
	}
}

func (d *faultyDriver) runStep(name string, run func() error) error {
	if f := d.hook.Load(); f != nil {
		return (*f)(name, run)
	}
	return run()
}

func (d *faultyDriver) Driver() driver.Driver { return d.inner }

func (d *faultyDriver) Connect(context.Context) (conn driver.Conn, err error) {
	err = d.runStep("open", func() error {
		inner, err := d.inner.Open(d.dsn)
		conn = &faultyConn{inner, d}
		return err
	})
	return conn, err
}

// faultyConn forwards what database/sql calls on a connection of SQLite.
type faultyConn struct {
	driver.Conn
	d *faultyDriver
}

var errNotOffered = errors.New("the inner driver does not offer this")

func (c *faultyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (res driver.Result, err error) {
	inner, ok := c.Conn.(driver.ExecerContext)
	if !ok {
		return nil, errNotOffered
	}
	err = c.d.runStep(query, func() (err error) { res, err = inner.ExecContext(ctx, query, args); return err })
	return res, err
}

func (c *faultyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (rows driver.Rows, err error) {
	inner, ok := c.Conn.(driver.QueryerContext)
	if !ok {
		return nil, errNotOffered
	}
	err = c.d.runStep(query, func() (err error) { rows, err = inner.QueryContext(ctx, query, args); return err })
	if err != nil && rows != nil {
		_ = rows.Close()
		rows = nil
	}
	return rows, err
}

func (c *faultyConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	inner, ok := c.Conn.(driver.ConnPrepareContext)
	if !ok {
		return nil, errNotOffered
	}
	s, err := inner.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return &faultyStmt{s, query, c.d}, nil
}

// faultyStmt is a prepared statement. It calls the fault when it is executed.
type faultyStmt struct {
	driver.Stmt
	query string
	d     *faultyDriver
}

func (s *faultyStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (res driver.Result, err error) {
	inner, ok := s.Stmt.(driver.StmtExecContext)
	if !ok {
		return nil, errNotOffered
	}
	err = s.d.runStep(s.query, func() (err error) { res, err = inner.ExecContext(ctx, args); return err })
	return res, err
}

func (s *faultyStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (rows driver.Rows, err error) {
	inner, ok := s.Stmt.(driver.StmtQueryContext)
	if !ok {
		return nil, errNotOffered
	}
	err = s.d.runStep(s.query, func() (err error) { rows, err = inner.QueryContext(ctx, args); return err })
	if err != nil && rows != nil {
		_ = rows.Close()
		rows = nil
	}
	return rows, err
}

func (c *faultyConn) BeginTx(ctx context.Context, o driver.TxOptions) (tx driver.Tx, err error) {
	inner, ok := c.Conn.(driver.ConnBeginTx)
	if !ok {
		return nil, errNotOffered
	}
	err = c.d.runStep("begin", func() (err error) { tx, err = inner.BeginTx(ctx, o); return err })
	return &faultyTx{tx, c.d}, err
}

func (c *faultyConn) ResetSession(ctx context.Context) error {
	if inner, ok := c.Conn.(driver.SessionResetter); ok {
		return inner.ResetSession(ctx)
	}
	return nil
}

func (c *faultyConn) IsValid() bool {
	inner, ok := c.Conn.(driver.Validator)
	return !ok || inner.IsValid()
}

type faultyTx struct {
	driver.Tx
	d *faultyDriver
}

// Commit rolls back where the fault has kept it from the server, as a server does whose connection
// is lost. A transaction that stays open would hold its locks from the pool.
func (t *faultyTx) Commit() error {
	sent := false
	err := t.d.runStep("commit", func() error { sent = true; return t.Tx.Commit() })
	if !sent {
		_ = t.Tx.Rollback()
	}
	return err
}

func (t *faultyTx) Rollback() error { return t.d.runStep("rollback", t.Tx.Rollback) }

// ErrCut is the error of a connection that a test has cut.
var ErrCut = errors.New("connection cut")
