package sql_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestPostgresManyProcesses: calls of several stores meet on the server, not in a queue of one
// process. Of many concurrent claims exactly one gets an absent key, and one gets a key whose lease
// has expired. A limit admits as many as it says. A sweep removes nothing that is live.
func TestPostgresManyProcesses(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	var stores []*sqlstore.Store
	db := sqltest.Open(t, "pgx", server.URL())
	for range 6 {
		s, _ := teststores.Postgres(t, server.URL(), nil)
		stores = append(stores, s)
	}
	atOnce := func(call func(i int, s *sqlstore.Store)) {
		var all sync.WaitGroup
		start := make(chan struct{})
		for i, s := range stores {
			all.Go(func() { <-start; call(i, s) })
		}
		close(start)
		all.Wait()
	}
	for n := range 60 {
		var wins [2]atomic.Int64
		for round := range wins {
			atOnce(func(i int, s *sqlstore.Store) {
				req := teststores.Request(fmt.Sprint("key ", n))
				req.Owner, req.OnDoubt = teststores.Owner(fmt.Sprint(n, " ", round, " ", i)), retrysafe.Reexecute
				if round == 0 && n%2 == 1 {
					req.OnDoubt = retrysafe.Refuse
				}
				a, err := s.Acquire(t.Context(), req)
				assert.NoError(t, err, "Acquire")
				if a.Status == storeapi.StatusAcquired {
					wins[round].Add(1)
					assert.Equal(t, a.Record.Attempt, round+1, "attempt")
				}
			})
			if round == 0 { // the lease expires
				sqltest.Exec(t, db, `UPDATE retrysafe_records SET lease_end = 1 WHERE state = 2`)
			}
		}
		assert.Equal(t, wins[0].Load(), int64(1), "wins of an absent key")
		assert.Equal(t, wins[1].Load(), int64(1-n%2), "wins of a key whose lease has passed, unless it is in doubt")
	}
	for n := range 20 {
		var in atomic.Int64
		atOnce(func(_ int, s *sqlstore.Store) {
			c, err := s.Charge(t.Context(), storeapi.ChargeRequest{
				Namespace: "app", Tenant: fmt.Sprint(n), Keys: 1, For: time.Hour, Limits: storeapi.Limits{Live: 3},
			})
			assert.NoError(t, err, "Charge")
			if c.OK {
				in.Add(1)
			}
		})
		assert.Equal(t, in.Load(), int64(3), "let in at once")
	}
	expiring := func(i int) storeapi.AcquireRequest {
		req := teststores.Request(fmt.Sprint("short ", i))
		req.OnDoubt, req.Lease, req.Retention = retrysafe.Reexecute, 5*time.Millisecond, 5*time.Millisecond
		return req
	}
	var removed atomic.Int64
	for i := range 300 {
		_, err := stores[i%6].Acquire(t.Context(), expiring(i))
		assert.NoError(t, err, "Acquire")
	}
	waits.Until(t.Context(), func() bool {
		rec, err := stores[0].Lookup(t.Context(), expiring(299).Key)
		return err == nil && rec.State == 0
	})
	atOnce(func(_ int, s *sqlstore.Store) {
		n, err := s.Sweep(t.Context(), 1000)
		assert.NoError(t, err, "Sweep")
		removed.Add(int64(n))
	})
	n, err := stores[0].Sweep(t.Context(), 1000)
	assert.NoError(t, err, "Sweep")
	assert.Equal(t, removed.Load()+int64(n), int64(300), "what sweeps at once have removed")
	page, err := stores[0].List(t.Context(), storeapi.ListRequest{})
	assert.NoError(t, err, "List")
	assert.Equal(t, len(page.Records), 60, "what is left")
}
