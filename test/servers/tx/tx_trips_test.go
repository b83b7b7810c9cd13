package tx_test

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestMySQLTxTrips: DoTx of a new key sends six messages on MariaDB besides those of its work, and
// eight on a server that has no SET STATEMENT.
func TestMySQLTxTrips(t *testing.T) {
	t.Parallel()
	for driver, want := range map[string][]string{
		"mysql": {
			"SET @retrysafe_autocommit", "START TRANSACTION", "SET STATEMENT innodb_lock_wait_timeout = 0, lock_wait_timeout = 5 FOR INSERT", "UPDATE", "COMMIT", "SET autocommit",
		},
		sqltest.MySQLWords: {
			"SET @retrysafe_autocommit", "START TRANSACTION", "SELECT", "INSERT", "SET innodb_lock_wait_timeout", "UPDATE", "COMMIT", "SET autocommit",
		},
	} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			server := servers.StartMySQL(t)
			proxy := servers.StartSQLProxy(t, server.Port, servers.MySQLMessage)
			on := shops.OnMySQL(server.At(proxy.Addr))
			on.Driver = driver
			s := on.Shop(t)
			order := func(key string) {
				t.Helper()
				_, err := retrysafe.DoTx(t.Context(), s.Engine, s.Store, teststores.OrderKey(key), func(context.Context, *sql.Tx) (int, error) { return 1, nil })
				assert.NoError(t, err, "DoTx")
			}
			order("the first one, which learns the words of the server")
			var mu sync.Mutex
			var sent []string
			proxy.Hook = func(statement string) servers.Cut {
				mu.Lock()
				defer mu.Unlock()
				sent = append(sent, statement)
				return 0
			}
			order("ada")
			mu.Lock()
			defer mu.Unlock()
			assert.Equal(t, len(sent), len(want), "messages: %q", sent)
			for i, begins := range want {
				assert.True(t, strings.HasPrefix(sent[i], begins), "message %d begins with %q: %q", i, begins, sent[i])
			}
		})
	}
}

// TestServerTxOverARecord: a key that this process has not seen has a record that can be claimed,
// or had one with a fence in the future.
func TestServerTxOverARecord(t *testing.T) {
	t.Parallel()
	shops.EachServerAndWords(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		a, b := server.Shop(t), server.Process(t)
		attempt := func(customer string) (seen retrysafe.Result[int64]) {
			t.Helper()
			seen, err := b.Order(t.Context(), customer)
			assert.NoError(t, err, "DoTx of %s", customer)
			return seen
		}
		key := func(customer string) storeapi.StoreKey {
			k := teststores.OrderKey(customer)
			return storeapi.StoreKey{Namespace: "app", Layer: "tx", Key: k}
		}
		begin := func(customer string) storeapi.Acquired {
			t.Helper()
			req := teststores.Request(customer)
			req.Key, req.Fingerprint, req.Binding = key(customer), nil, nil
			got, err := a.Store.Acquire(t.Context(), req)
			assert.NoError(t, err, "Acquire")
			return got
		}
		released := begin("released")
		assert.NoError(t, a.Store.Release(t.Context(), storeapi.ReleaseRequest{
			Key: released.Record.Key, Owner: released.Record.Owner, Fence: released.Record.Fence,
		}), "Release")
		got := attempt("released")
		assert.True(t, got.Attempt == 2 && got.Fence > released.Record.Fence, "over a released record: %+v", got)

		ended := begin("expired")
		_, err := a.Store.Complete(t.Context(), storeapi.CompleteRequest{
			Key: ended.Record.Key, Owner: ended.Record.Owner, Fence: ended.Record.Fence, State: storeapi.StateCompleted, Retention: time.Microsecond,
		})
		assert.NoError(t, err, "Complete")
		<-time.After(time.Millisecond) // it expires
		got = attempt("expired")
		assert.True(t, got.Attempt == 1 && got.Fence > ended.Record.Fence, "over an expired record: %+v", got)

		held := begin("held")
		_, err = b.Order(t.Context(), "held")
		assert.ErrorIs(t, err, retrysafe.ErrInProgress, "over a record in progress")
		assert.True(t, held.Status == storeapi.StatusAcquired, "it was claimed")

		const floor = 1 << 52 // far in the future
		sqltest.Exec(t, a.DB, "UPDATE retrysafe_records_meta SET fence_floor = 4503599627370496")
		got = attempt("floor")
		assert.True(t, got.Attempt == 1 && got.Fence == floor+1, "after a record with a larger fence was removed: %+v", got)
		for _, customer := range []string{"released", "expired", "floor"} {
			b.WantOnce(t, customer, "a record that was there")
		}
	})
}
