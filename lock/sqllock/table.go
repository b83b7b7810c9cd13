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
	db       *sql.DB
	dialect  Dialect
	o        Options
	queries  queries
	releases releaseSignals

	mu                sync.Mutex
	lastSweep         time.Time
	autocommitChecked bool // and sessions commit each statement
}

var _ lock.Backend = (*Table)(nil)

// NewTable returns a backend on a database. It sends no query; call [Table.Migrate] once, or run
// [SchemaSQL].
func NewTable(db *sql.DB, d Dialect, o *Options) (*Table, error) {
	if db == nil {
		return nil, errors.New("sqllock: NewTable needs a database")
	}
	own, err := checkedOptions(o, d)
	if err != nil {
		return nil, err
	}
	return &Table{db: db, dialect: d, o: own, queries: queriesFor(d, own.Table), lastSweep: time.Now()}, nil
}

// Migrate creates the table if it does not exist. Several processes can call it at once.
func (t *Table) Migrate(ctx context.Context) error {
	return createTable(ctx, t.db, t.dialect, t.o.Table)
}

// TryLock implements [lock.Backend]. It sends one statement, on MySQL two.
func (t *Table) TryLock(ctx context.Context, r lock.Request) (lock.Grant, error) {
	if ctx.Err() != nil {
		return lock.Grant{}, context.Cause(ctx)
	}
	if err := t.checkAutocommit(ctx); err != nil {
		return lock.Grant{}, err
	}
	var fence int64
	err := retryBlocked(ctx, func() (err error) {
		fence, err = t.queries.queryFence(ctx, t.db, t.queries.acquire, r)
		return err
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return lock.Grant{}, lock.ErrHeld
	case err != nil:
		return lock.Grant{}, explainError("take the lock", t.o.Table, err)
	}
	return lock.Grant{Fence: retrysafe.Fence(fence)}, nil //nolint:gosec // it is a time
}

// checkAutocommit refuses sessions of MySQL without autocommit. No other session would see the
// locks that they take, and all others would wait for them. It checks once.
func (t *Table) checkAutocommit(ctx context.Context) error {
	t.mu.Lock()
	asked := t.autocommitChecked || t.dialect != MySQL
	t.mu.Unlock()
	if asked {
		return nil
	}
	var autocommit int
	if err := t.db.QueryRowContext(ctx, `SELECT @@autocommit`).Scan(&autocommit); err != nil {
		return explainError("ask for autocommit", t.o.Table, err)
	}
	if autocommit == 0 {
		return errors.New("sqllock: autocommit is off, so that no one else would see a lock; leave autocommit out of the data source name, or give locks a *sql.DB of their own")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.autocommitChecked = true
	return nil
}

// Extend implements [lock.Backend].
func (t *Table) Extend(ctx context.Context, r lock.Request) error {
	return t.updateRow(ctx, "extend the lease", t.queries.extend, r.Lease.Microseconds(), []byte(r.Name), r.Owner[:])
}

// Unlock implements [lock.Backend]. Sometimes it also removes rows that are older than
// Options.Remember.
func (t *Table) Unlock(ctx context.Context, r lock.Request) error {
	err := t.updateRow(ctx, "release the lock", t.queries.release, []byte(r.Name), r.Owner[:])
	if err != nil {
		return err
	}
	t.releases.notify(r.Name)
	t.mu.Lock()
	due := time.Since(t.lastSweep) > t.o.Remember/24
	if due {
		t.lastSweep = time.Now()
	}
	t.mu.Unlock()
	if due {
		_, _ = t.Sweep(ctx) // its error does not concern the caller, and the next sweep comes soon
	}
	return nil
}

// updateRow runs a statement that changes the owner's row. It returns [lock.ErrLost] if there is
// none.
func (t *Table) updateRow(ctx context.Context, step, query string, args ...any) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var n int64
	err := retryBlocked(ctx, func() (err error) {
		n, err = sqlkit.Affected(t.db.ExecContext(ctx, query, args...))
		return err
	})
	if err != nil {
		return explainError(step, t.o.Table, err)
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
	return int(n), explainError("remove old names", t.o.Table, err)
}
