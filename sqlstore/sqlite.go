package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/dberr"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// sqlite is the backend for a SQLite file, which has one writer at a time.
type sqlite struct{ db *database }

// read runs f on a connection. A brief read is not interrupted.
func (s sqlite) read(ctx context.Context, how span, f func(context.Context, sqlkit.Execer) error) error {
	wait, cancel := s.db.patience(ctx, time.Time{})
	defer cancel()
	inner := ctx
	if how == brief {
		inner = context.WithoutCancel(ctx)
	}
	return wait.over(retry(wait, func() error {
		se, err := s.db.session(wait)
		if err != nil {
			return err
		}
		defer se.end(ctx)
		return f(inner, se)
	}))
}

// write lets one call write at a time, whatever its key.
func (s sqlite) write(ctx context.Context, _ recordID, notAfter time.Time, f func(context.Context, sqlkit.Execer) (bool, error)) error {
	return s.db.write(ctx, notAfter, f)
}

// migrate is write, since one process writes at a time. Once it has the lock, no time limits it.
func (s sqlite) migrate(ctx context.Context, _ time.Duration, f func(context.Context, sqlkit.Execer) error) error {
	return s.db.write(ctx, time.Time{}, func(ctx context.Context, w sqlkit.Execer) (bool, error) { return true, f(ctx, w) })
}

func (s sqlite) skew() string {
	return "this machine's clock: the clock was set back, or machines share the file, which SQLite does not allow over a network"
}

// explain adds advice to err. SQLite has no code of its own for a missing table, so that is found
// by its text.
func (s sqlite) explain(step string, err error) error {
	code := dberr.SQLiteCode(err)
	if code == codeError && strings.Contains(err.Error(), "no such table: "+s.db.table) {
		return s.db.notMigrated()
	}
	if code == codeBusySnapshot {
		return fmt.Errorf("sqlstore: %s: the transaction has read before, and somebody else has written since; let this be the first statement of a transaction: %w",
			step, err)
	}
	if text, ok := sqliteAdvice[code&0xff]; ok {
		return fmt.Errorf("sqlstore: %s: %s: %w", step, text, err)
	}
	return fmt.Errorf("sqlstore: %s: %w", step, err)
}
