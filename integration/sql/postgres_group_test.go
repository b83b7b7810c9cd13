package sql_test

import (
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/integration/internal/servers"
	"github.com/retrysafe/retrysafe/integration/internal/teststores"
	"github.com/retrysafe/retrysafe/integration/internal/waits"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/sqlstore"
)

// TestPostgresGroup: the calls of many callers in one transaction.
func TestPostgresGroup(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	t.Run("any order of keys", func(t *testing.T) {
		t.Parallel()
		o := &sqlstore.Options{Table: teststores.NewTable()}
		one, _ := teststores.Postgres(t, server.URL(), o)
		two, _ := teststores.Postgres(t, server.URL("default_transaction_isolation=serializable"), o)
		groupStorm(t, one, two)
	})
	t.Run("rows that are held", func(t *testing.T) {
		t.Parallel()
		o := &sqlstore.Options{Table: teststores.NewTable(), LockWait: waits.Long}
		s, _ := teststores.Postgres(t, server.URL(), o)
		_, others := teststores.Postgres(t, server.URL(), o)
		groupBesideHeldRows(t, s, func(key retrysafe.StoreKey) func() { return holdRow(t, others, o.Table, key) })
	})
	t.Run("a commit without an answer", func(t *testing.T) {
		t.Parallel()
		proxy := servers.StartSQLProxy(t, server.Port, servers.PostgresMessage)
		for what, name := range map[servers.Cut]string{servers.LoseRequest: "the request", servers.LoseReply: "the reply"} {
			s, _ := teststores.Postgres(t, server.At(proxy.Addr), &sqlstore.Options{Table: teststores.NewTable()})
			proxy.Set(aCommit, what)
			assert.True(t, groupRepeats(t, s) > 0, "calls that were told that nobody knows, %s is lost", name)
		}
	})
}
