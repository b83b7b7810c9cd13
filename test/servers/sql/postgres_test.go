package sql_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// holdRow opens another transaction that inserts the record of a key, or locks the existing one.
func holdRow(t *testing.T, db *sql.DB, table string, key storeapi.StoreKey) (release func()) {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), nil)
	assert.NoError(t, err, "somebody's transaction")
	text, _ := key.AppendText(nil)
	id := sha256.Sum256(text)
	_, err = tx.ExecContext(t.Context(), strings.Replace(`INSERT INTO records (id, parts, state, owner, fence, lease_end, expires, updated, data)
		VALUES ($1, '', 3, '0123456789abcdef', 7, 0, 0, 1, '') ON CONFLICT (id) DO UPDATE SET updated = 99`, "records", table, 1), id[:16])
	assert.NoError(t, err, "hold a key")
	release = sync.OnceFunc(func() { _ = tx.Rollback() })
	t.Cleanup(release)
	return release
}

var postgresFeatures = storetest.Features{Issuer: true, Notifier: true, Limiter: true, UsageReader: true, Forgetter: true, Lister: true, Sweeper: true, Durable: true, Transactions: true}

// TestPostgresStore runs the contract on each version. Clauses share a server, each with its own
// tables, except for those that stall it.
func TestPostgresStore(t *testing.T) {
	t.Parallel()
	servers.EachPostgres(t, func(t *testing.T, v *servers.PostgresVersion) {
		t.Helper()
		shared := v.Start(t)
		hangs := []string{t.Name() + "/S11", t.Name() + "/S15"}
		storetest.Run(t, func(t *testing.T) storetest.Backend {
			t.Helper()
			if !slices.Contains(hangs, t.Name()) {
				return postgresBackend(t, shared)
			}
			own := v.Start(t)
			b := postgresBackend(t, own)
			b.Stall = own.Stall
			return b
		}, postgresFeatures)
	})
}

func postgresBackend(t *testing.T, server *servers.Postgres) storetest.Backend {
	t.Helper()
	o := &sqlstore.Options{Table: teststores.NewTable(), Listen: teststores.ListenTo(server.URL())}
	store, _ := teststores.Postgres(t, server.URL(), o)
	_, others := teststores.Postgres(t, server.URL(), o)
	return storetest.Backend{
		Store:  store,
		Reopen: func() storeapi.Store { again, _ := teststores.Postgres(t, server.URL(), o); return again },
		Hold:   func(key storeapi.StoreKey) func() { return holdRow(t, others, o.Table, key) },
	}
}
