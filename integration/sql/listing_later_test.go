package sql_test

import (
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/integration/internal/shops"
	"github.com/retrysafe/retrysafe/integration/internal/teststores"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/sqlstore"
)

// TestSQLListingLater: the index of keys for a table that is in use must be ready within LockWait,
// since writers wait meanwhile. Otherwise the error has the statement that makes it without holding
// up anybody, and after that Migrate waits for no writer.
func TestSQLListingLater(t *testing.T) {
	t.Parallel()
	shops.EachServer(t, func(t *testing.T, d shops.Database) {
		t.Helper()
		a := d.Shop(t)
		table := teststores.NewTable()
		with := func(listing bool, wait time.Duration) *sqlstore.Store {
			s, err := sqlstore.New(a.DB, a.Store.Dialect(), &sqlstore.Options{Table: table, Listing: listing, LockWait: wait})
			assert.NoError(t, err, "New")
			return s
		}
		plain := with(false, 0)
		assert.NoError(t, plain.Migrate(t.Context()), "Migrate without the index")
		_, err := plain.Acquire(t.Context(), teststores.Request("one"))
		assert.NoError(t, err, "Acquire")
		writes := func() (end func() error) {
			tx, err := a.DB.BeginTx(t.Context(), nil)
			assert.NoError(t, err, "begin")
			_, err = tx.ExecContext(t.Context(), "UPDATE "+table+" SET updated = updated + 1")
			assert.NoError(t, err, "somebody writes")
			return tx.Rollback
		}

		end := writes()
		err = with(true, time.Second).Migrate(t.Context())
		assert.True(t, err != nil && strings.Contains(err.Error(), "LockWait (1s)"), "the index beside a writer: %v", err)
		assert.NoError(t, end(), "the writer ends")
		_, statement, _ := strings.Cut(err.Error(), "call Migrate again: ")
		_, err = a.DB.ExecContext(t.Context(), statement)
		// MariaDB may still have made it, in the second after the call was given up
		assert.True(t, err == nil || strings.Contains(err.Error(), "Duplicate key name"), "the statement of the error, %s: %v", statement, err)

		defer writes()() //nolint:errcheck // a rollback
		assert.NoError(t, with(true, time.Minute).Migrate(t.Context()), "Migrate beside a writer, when the index is there")
	})
}
