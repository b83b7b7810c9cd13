package sql_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

func TestSQLiteStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		t.Helper()
		path, clock := sqltest.NewFile(t), storetest.NewClock()
		o := &sqlstore.Options{Now: clock.Now}
		store, _ := teststores.OpenSQLite(t, path, o)
		return storetest.Backend{
			Store: store, Advance: clock.Advance,
			Reopen: func() storeapi.Store { again, _ := teststores.OpenSQLite(t, path, o); return again },
			Hold: func(storeapi.StoreKey) func() { // whatever the key: there is one lock
				release := sqltest.HoldFile(t, path)
				t.Cleanup(release)
				return release
			},
		}
	}, storetest.Features{Issuer: true, Limiter: true, UsageReader: true, Forgetter: true, Lister: true, Sweeper: true, Durable: true, Transactions: true, SingleWriter: true})
}
