package sql_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestPostgresPooler: through PgBouncer in transaction mode the plain URL of pgx gets an error that
// names the setting, and with that setting all calls work.
func TestPostgresPooler(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	addr := servers.StartBouncer(t, server, "transaction", "default_pool_size = 1")
	open := func(parameters ...string) *sqlstore.Store {
		db := sqltest.Open(t, "pgx", server.At(addr, parameters...))
		db.SetMaxOpenConns(1)
		s, err := sqlstore.New(db, sqlstore.PostgreSQL, &sqlstore.Options{Logger: slog.New(slog.DiscardHandler)})
		assert.NoError(t, err, "a store")
		return s
	}
	first := open()
	assert.NoError(t, first.Migrate(t.Context()), "Migrate of the first process")
	_, err := first.Lookup(t.Context(), teststores.Request("a").Key)
	assert.NoError(t, err, "Lookup of the first process")
	// The second process shares the connection to the server, and prepares the same statements.
	_, err = open().Lookup(t.Context(), teststores.Request("a").Key)
	assert.Contains(t, fmt.Sprint(err), "default_query_exec_mode=exec", "Lookup of the second process")
	for range 3 {
		s := open("default_query_exec_mode=exec")
		assert.NoError(t, s.Migrate(t.Context()), "Migrate with the setting")
		got, err := s.Acquire(t.Context(), teststores.Request("a"))
		assert.NoError(t, err, "Acquire with the setting")
		assert.True(t, got.Status == storeapi.StatusAcquired || got.Status == storeapi.StatusInProgress, "status: %v", got.Status)
	}
}
