package integration_test

import (
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/sqlstore"
)

// TestMySQLGroup: the calls of many callers in one transaction.
func TestMySQLGroup(t *testing.T) {
	t.Parallel()
	server := startMySQL(t)
	t.Run("any order of keys", func(t *testing.T) {
		t.Parallel()
		o := &sqlstore.Options{Table: newTable()}
		one, _ := mysqlOn(t, server.dsn(), o)
		two, _ := mysqlOn(t, server.dsn(), o)
		groupStorm(t, one, two)
	})
	t.Run("rows that are held", func(t *testing.T) {
		t.Parallel()
		o := &sqlstore.Options{Table: newTable(), LockWait: long}
		s, _ := mysqlOn(t, server.dsn(), o)
		_, others := mysqlOn(t, server.dsn(), o)
		groupBesideHeldRows(t, s, func(key retrysafe.StoreKey) func() { return holdMySQLRow(t, others, o.Table, key) })
	})
}
