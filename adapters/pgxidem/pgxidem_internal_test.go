package pgxidem

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// ended is a pgx transaction that has ended.
type ended struct{ pgx.Tx }

func (ended) Rollback(context.Context) error { return pgx.ErrTxClosed }
func (ended) QueryRow(context.Context, string, ...any) pgx.Row {
	return row{pgx.ErrNoRows}
}

type row struct{ err error }

func (r row) Scan(...any) error { return r.err }

// TestErrors: pgx's own errors are converted to those that sqlstore knows. The integration module
// tests the rest on a real server.
func TestErrors(t *testing.T) {
	t.Parallel()
	tx := &transaction{tx: ended{}}
	assert.ErrorIs(t, tx.Rollback(t.Context()), sql.ErrTxDone, "a transaction that has ended")
	assert.ErrorIs(t, tx.QueryRow(t.Context(), "", nil), sql.ErrNoRows, "no row")
	assert.Equal(t, tx.Dialect(), dbtx.PostgreSQL, "dialect")
	assert.True(t, errors.Is(withTxDone(errors.New("x")), sql.ErrTxDone) == false, "another error")
}
