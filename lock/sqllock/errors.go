package sqllock

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// retryBlocked calls f until no other transaction blocks it.
func retryBlocked(ctx context.Context, f func() error) error {
	err := sqlkit.Retry(ctx, f)
	if sqlkit.InTheWay(err) {
		return fmt.Errorf("sqllock: other transactions were in the way until the end of the context; nothing was done: %w", context.Cause(ctx))
	}
	return err
}

// explainError says which step err is from, and what to do if that is known. None of these
// statements fails in a way in which a database would quote a name.
func explainError(step, table string, err error) error {
	switch {
	case err == nil:
		return nil
	case sqlkit.MissingTable(err, table):
		return fmt.Errorf("sqllock: %s: the table %s is not there; call Migrate, or run SchemaSQL: %w", step, table, err)
	}
	return fmt.Errorf("sqllock: %s: %w", step, err)
}
