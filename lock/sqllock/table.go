package sqllock

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/lock"
)

// Table keeps locks as rows with a lease. It is safe for concurrent use. Share it between lockers,
// so that its releases wake their waiters.
type Table struct {
	db      *sql.DB
	dialect Dialect
	o       Options
	queries queries
	calls   calls

	mu    sync.Mutex
	swept time.Time
	asked bool // and sessions commit each statement
}

var _ lock.Backend = (*Table)(nil)

// NewTable returns a backend on a database. It sends no query; call [Table.Migrate] once, or run
// [SchemaSQL].
func NewTable(db *sql.DB, d Dialect, o *Options) (*Table, error) {
	if db == nil {
		return nil, errors.New("sqllock: NewTable needs a database")
	}
	own, err := checked(o, d)
	if err != nil {
		return nil, err
	}
	return &Table{db: db, dialect: d, o: own, queries: queriesOf(d, own.Table), swept: time.Now()}, nil
}

// Migrate creates the table if it does not exist. Several processes can call it at once.
func (t *Table) Migrate(ctx context.Context) error { return migrate(ctx, t.db, t.dialect, t.o.Table) }

// TryLock implements [lock.Backend]. It sends one statement, on MySQL two.
func (t *Table) TryLock(ctx context.Context, r lock.Request) (lock.Grant, error) {
	if ctx.Err() != nil {
		return lock.Grant{}, context.Cause(ctx)
	}
	if err := t.commits(ctx); err != nil {
		return lock.Grant{}, err
	}
	var fence int64
	err := patient(ctx, func() (err error) {
		fence, err = t.queries.fenced(ctx, t.db, t.queries.take, r)
		return err
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return lock.Grant{}, lock.ErrHeld
	case err != nil:
		return lock.Grant{}, explain("take the lock", t.o.Table, err)
	}
	return lock.Grant{Fence: retrysafe.Fence(fence)}, nil //nolint:gosec // it is a time
}

// commits refuses sessions of MySQL without autocommit. No other session would see the locks that
// they take, and all others would wait for them. It checks once.
func (t *Table) commits(ctx context.Context) error {
	t.mu.Lock()
	asked := t.asked || t.dialect != MySQL
	t.mu.Unlock()
	if asked {
		return nil
	}
	var autocommit int
	if err := t.db.QueryRowContext(ctx, `SELECT @@autocommit`).Scan(&autocommit); err != nil {
		return explain("ask for autocommit", t.o.Table, err)
	}
	if autocommit == 0 {
		return errors.New("sqllock: autocommit is off, so that nobody would see a lock; leave autocommit out of the data source name, or give locks a *sql.DB of their own")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = true
	return nil
}

// Extend implements [lock.Backend].
func (t *Table) Extend(ctx context.Context, r lock.Request) error {
	return t.change(ctx, "extend the lease", t.queries.extend, r.Lease.Microseconds(), []byte(r.Name), r.Owner[:])
}

// Unlock implements [lock.Backend]. Sometimes it also removes rows that are older than
// Options.Remember.
func (t *Table) Unlock(ctx context.Context, r lock.Request) error {
	err := t.change(ctx, "release the lock", t.queries.free, []byte(r.Name), r.Owner[:])
	if err != nil {
		return err
	}
	t.calls.wake(r.Name)
	t.mu.Lock()
	due := time.Since(t.swept) > t.o.Remember/24
	if due {
		t.swept = time.Now()
	}
	t.mu.Unlock()
	if due {
		_, _ = t.Sweep(ctx) // its error does not concern the caller, and the next sweep comes soon
	}
	return nil
}

// change runs a statement that changes the owner's row. It returns [lock.ErrLost] if there is none.
func (t *Table) change(ctx context.Context, step, query string, args ...any) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var n int64
	err := patient(ctx, func() (err error) {
		n, err = sqlkit.Affected(t.db.ExecContext(ctx, query, args...))
		return err
	})
	if err != nil {
		return explain(step, t.o.Table, err)
	}
	if n == 0 {
		return lock.ErrLost
	}
	return nil
}

// Sweep removes up to 1000 names whose last lease ended longer ago than Options.Remember, and
// returns how many it removed. Unlock calls it from time to time.
func (t *Table) Sweep(ctx context.Context) (int, error) {
	n, err := sqlkit.Affected(t.db.ExecContext(ctx, t.queries.sweep, t.o.Remember.Microseconds()))
	return int(n), explain("remove old names", t.o.Table, err)
}
