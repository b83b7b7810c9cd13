package tx_test

import (
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe/internal/answertest"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
)

// TestSQLGoValues: a duplicate gets the answer of the first caller, whichever Go value it is, with
// and without a transaction.
func TestSQLGoValues(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, s *shops.Shop) {
		t.Helper()
		answertest.Run(t, s.Store)
		t.Run("in a transaction", func(t *testing.T) { answertest.RunTx[*sql.Tx](t, s.Store, s.Store) })
	}
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		check(t, shops.NewFile(t))
	})
	shops.EachKindOfServer(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		check(t, server.Shop(t))
	})
	servers.EachPostgres(t, func(t *testing.T, v *servers.PostgresVersion) {
		t.Helper()
		s := newPgxShop(t, v.Database(t))
		answertest.RunTx[pgx.Tx](t, s.Store, s.db)
	})
}
