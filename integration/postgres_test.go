package integration_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/pgxidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/sqlstore"
	"github.com/retrysafe/retrysafe/storetest"
)

// holdRow opens another transaction that inserts the record of a key, or locks the existing one.
func holdRow(t *testing.T, db *sql.DB, table string, key retrysafe.StoreKey) (release func()) {
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

var postgresFeatures = storetest.Features{Issuer: true, Notifier: true, Limiter: true, Lister: true, Sweeper: true, Durable: true, Transactions: true}

// TestPostgresStore runs the contract. Clauses share a server, each with its own tables, except for
// those that stall it.
func TestPostgresStore(t *testing.T) {
	t.Parallel()
	shared := startPostgres(t)
	hangs := []string{"TestPostgresStore/S11", "TestPostgresStore/S15"}
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		t.Helper()
		if !slices.Contains(hangs, t.Name()) {
			return postgresBackend(t, shared)
		}
		own := startPostgres(t)
		b := postgresBackend(t, own)
		b.Stall = own.stall
		return b
	}, postgresFeatures)
}

// listenTo returns a function that receives what is published on the server.
func listenTo(url string) func(context.Context, string, func(string)) error {
	return pgxidem.Listen(func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, url) })
}

func postgresBackend(t *testing.T, server *postgresServer) storetest.Backend {
	t.Helper()
	o := &sqlstore.Options{Table: newTable(), Listen: listenTo(server.url())}
	store, _ := postgresOn(t, server.url(), o)
	_, others := postgresOn(t, server.url(), o)
	return storetest.Backend{
		Store:  store,
		Reopen: func() retrysafe.Store { again, _ := postgresOn(t, server.url(), o); return again },
		Hold:   func(key retrysafe.StoreKey) func() { return holdRow(t, others, o.Table, key) },
	}
}
