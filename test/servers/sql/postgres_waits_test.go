package sql_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestPostgresReplicaIsAway: a claim that no synchronous replica has is not confirmed, and belongs
// to the owner when it repeats the call.
func TestPostgresReplicaIsAway(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t, "-c", "wal_level=replica")
	s, _ := teststores.Postgres(t, server.URL(), &sqlstore.Options{LockWait: 100 * time.Millisecond})
	patient, admin := teststores.Postgres(t, server.URL(), nil)
	replicas := func(names string) {
		sqltest.Exec(t, admin, `ALTER SYSTEM SET synchronous_standby_names = '`+names+`'`)
		sqltest.Exec(t, admin, `SELECT pg_reload_conf()`)
		waits.Until(t.Context(), func() bool {
			var set string
			err := admin.QueryRowContext(t.Context(), `SHOW synchronous_standby_names`).Scan(&set)
			return err == nil && set == names
		})
		probe := func(ctx context.Context) error {
			_, err := admin.ExecContext(ctx, `CREATE OR REPLACE VIEW probe AS SELECT 1 AS n`)
			return err
		}
		if names == "" { // commits that need no replica are released after a while
			assert.NoError(t, probe(t.Context()), "a commit that needs no replica")
			return
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { // the server applies it after a while, and then commits wait
			defer close(ended)
			var err error
			for err == nil {
				err = probe(ctx)
			}
		}()
		waits.Until(t.Context(), func() bool {
			var waiting int
			err := admin.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`).Scan(&waiting)
			assert.NoError(t, err, "look at the server")
			return waiting > 0
		})
		cancel()
		<-ended
	}
	replicas("nobody")
	var err error
	waits.Until(t.Context(), func() bool {
		// 100 ms are short on a busy machine; the call may not even reach its commit.
		_, err = s.Acquire(t.Context(), teststores.Request("a"))
		return !strings.Contains(fmt.Sprint(err), "nothing was changed")
	})
	assert.Contains(t, fmt.Sprint(err), "it is unknown whether it was carried out", "Acquire without a replica")
	replicas("")
	a, err := patient.Acquire(t.Context(), teststores.Request("a"))
	assert.NoError(t, err, "the owner's repeat")
	assert.Equal(t, a.Status, storeapi.StatusAcquired, "the owner's repeat")
	assert.Equal(t, a.Record.Attempt, 1, "attempts")

	replicas("nobody")
	end := storeapi.CompleteRequest{
		Key: a.Record.Key, Owner: a.Record.Owner, Fence: a.Record.Fence, State: retrysafe.StateCompleted, Answer: retrysafe.Answer{Kept: true, Codec: "raw"},
	}
	for n := range 2 {
		_, err = s.Complete(t.Context(), end)
		assert.True(t, err != nil, "Complete %d without a replica", n)
	}
	e := teststores.Engine(t, s)
	sqltest.Exec(t, sqltest.Open(t, "pgx", server.URL("synchronous_commit=local")), "CREATE TABLE orders (id SERIAL PRIMARY KEY, customer TEXT NOT NULL)")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	res, err := retrysafe.DoTx(ctx, e, s, teststores.OrderKey("ada"), func(ctx context.Context, tx *sql.Tx) (int64, error) { return shops.Insert(ctx, tx, "ada") })
	assert.True(t, err != nil && !res.Stored, "DoTx without a replica: %+v", res)
	replicas("")
	_, err = patient.Complete(t.Context(), end)
	assert.NoError(t, err, "Complete with its replica again")
	(&shops.Shop{Store: patient, Engine: teststores.Engine(t, patient), DB: admin}).WantOnce(t, "ada", "the replica was away")
}
