package sql_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestServerGroup: the calls of many callers in one transaction.
func TestServerGroup(t *testing.T) {
	t.Parallel()
	eachSQLServer(t, func(t *testing.T, server *sqlServer) {
		t.Helper()
		t.Run("any order of keys", func(t *testing.T) {
			t.Parallel()
			o := &sqlstore.Options{Table: teststores.NewTable()}
			one, _ := server.store(t, server.url, o)
			two, _ := server.store(t, server.strict, o)
			groupStorm(t, one, two)
		})
		t.Run("rows that are held", func(t *testing.T) {
			t.Parallel()
			o := &sqlstore.Options{Table: teststores.NewTable(), LockWait: waits.Long}
			s, _ := server.store(t, server.url, o)
			_, others := server.store(t, server.url, o)
			groupBesideHeldRows(t, s, func(key storeapi.StoreKey) func() { return server.hold(t, others, o.Table, key) })
		})
		t.Run("a commit without an answer", func(t *testing.T) {
			t.Parallel()
			proxy := server.startProxy(t)
			for what, name := range map[servers.Cut]string{servers.LoseRequest: "the request", servers.LoseReply: "the reply"} {
				s, _ := server.store(t, server.at(proxy.Addr), &sqlstore.Options{Table: teststores.NewTable()})
				proxy.Set(server.commits, what)
				assert.True(t, groupRepeats(t, s) > 0, "calls that were told that nobody knows, %s is lost", name)
			}
		})
	})
}
