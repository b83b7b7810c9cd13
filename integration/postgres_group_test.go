package integration_test

import (
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/sqlstore"
)

// TestPostgresGroup: the calls of many callers in one transaction.
func TestPostgresGroup(t *testing.T) {
	t.Parallel()
	server := startPostgres(t)
	t.Run("any order of keys", func(t *testing.T) {
		t.Parallel()
		o := &sqlstore.Options{Table: newTable()}
		one, _ := postgresOn(t, server.url(), o)
		two, _ := postgresOn(t, server.url("default_transaction_isolation=serializable"), o)
		groupStorm(t, one, two)
	})
	t.Run("rows that are held", func(t *testing.T) {
		t.Parallel()
		o := &sqlstore.Options{Table: newTable(), LockWait: long}
		s, _ := postgresOn(t, server.url(), o)
		_, others := postgresOn(t, server.url(), o)
		groupBesideHeldRows(t, s, func(key retrysafe.StoreKey) func() { return holdRow(t, others, o.Table, key) })
	})
	t.Run("a commit without an answer", func(t *testing.T) {
		t.Parallel()
		proxy := startSQLProxy(t, server.port, postgresMessage)
		for what, name := range map[cut]string{loseRequest: "the request", loseReply: "the reply"} {
			s, _ := postgresOn(t, server.at(proxy.Addr), &sqlstore.Options{Table: newTable()})
			proxy.set(aCommit, what)
			assert.True(t, groupRepeats(t, s) > 0, "calls that were told that nobody knows, %s is lost", name)
		}
	})
}
