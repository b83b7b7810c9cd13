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

// holdMySQLRow opens another transaction that inserts the record of a key, or locks the existing
// one.
func holdMySQLRow(t *testing.T, db *sql.DB, table string, key storeapi.StoreKey) (release func()) {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), nil)
	assert.NoError(t, err, "somebody's transaction")
	text, _ := key.AppendText(nil)
	id := sha256.Sum256(text)
	_, err = tx.ExecContext(t.Context(), strings.Replace(`INSERT INTO records (id, parts, state, owner, fence, lease_end, expires, updated, data)
		VALUES (?, '', 3, '0123456789abcdef', 7, 0, 0, 1, '') ON DUPLICATE KEY UPDATE updated = 99`, "records", table, 1), id[:16])
	assert.NoError(t, err, "hold a key")
	release = sync.OnceFunc(func() { _ = tx.Rollback() })
	t.Cleanup(release)
	return release
}

var mysqlFeatures = storetest.Features{Issuer: true, Limiter: true, UsageReader: true, Forgetter: true, Lister: true, Sweeper: true, Durable: true, Transactions: true}

// TestMySQLStore runs the contract. Clauses share a server, each with its own tables, except for
// those that stall it.
func TestMySQLStore(t *testing.T) {
	t.Parallel()
	shared := servers.StartMySQL(t)
	hangs := []string{"TestMySQLStore/S11", "TestMySQLStore/S15"}
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		t.Helper()
		if !slices.Contains(hangs, t.Name()) {
			return mysqlBackend(t, shared.DSN(), shared.DSN())
		}
		own := servers.StartMySQL(t)
		b := mysqlBackend(t, own.DSN(), own.DSN())
		b.Stall = own.Stall
		return b
	}, mysqlFeatures)
}

// mysqlBackend returns a store on one address, and others that hold its rows on the other.
func mysqlBackend(t *testing.T, dsn, other string) storetest.Backend {
	t.Helper()
	o := &sqlstore.Options{Table: teststores.NewTable()}
	_, others := teststores.MySQL(t, other, o)
	store, _ := teststores.MySQL(t, dsn, o)
	return storetest.Backend{
		Store:  store,
		Reopen: func() storeapi.Store { again, _ := teststores.MySQL(t, dsn, o); return again },
		Hold:   func(key storeapi.StoreKey) func() { return holdMySQLRow(t, others, o.Table, key) },
	}
}
