package sql_test

import (
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/integration/internal/servers"
	"github.com/retrysafe/retrysafe/integration/internal/teststores"
	"github.com/retrysafe/retrysafe/integration/internal/waits"
	"github.com/retrysafe/retrysafe/sqlstore"
)

// TestMySQLGroup: the calls of many callers in one transaction.
func TestMySQLGroup(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	t.Run("any order of keys", func(t *testing.T) {
		t.Parallel()
		o := &sqlstore.Options{Table: teststores.NewTable()}
		one, _ := teststores.MySQL(t, server.DSN(), o)
		two, _ := teststores.MySQL(t, server.DSN(), o)
		groupStorm(t, one, two)
	})
	t.Run("rows that are held", func(t *testing.T) {
		t.Parallel()
		o := &sqlstore.Options{Table: teststores.NewTable(), LockWait: waits.Long}
		s, _ := teststores.MySQL(t, server.DSN(), o)
		_, others := teststores.MySQL(t, server.DSN(), o)
		groupBesideHeldRows(t, s, func(key retrysafe.StoreKey) func() { return holdMySQLRow(t, others, o.Table, key) })
	})
}
