package sql_test

import (
	"context"
	"database/sql"
	"errors"
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
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// chargeAll charges tenants at once, and waits until all of the charges are queued.
func chargeAll(ctx context.Context, s *sqlstore.Store, limits storeapi.Limits, tenants ...string) (ends []chan error) {
	ends = make([]chan error, len(tenants))
	all := s.Waiting() + len(tenants)
	for i, tenant := range tenants {
		end := make(chan error, 1)
		ends[i] = end
		go func() {
			got, err := s.Charge(ctx, storeapi.ChargeRequest{Namespace: "app", Tenant: tenant, Keys: 1, For: time.Hour, Limits: limits})
			if err == nil && !got.OK {
				err = errOverLimit
			}
			end <- err
		}()
	}
	for s.Waiting() < all && ctx.Err() == nil {
		<-time.After(time.Millisecond)
	}
	return ends
}

var errOverLimit = errors.New("over the limit")

// TestSQLiteChargesTogether: charges that come during a commit are the next commit, for all
// tenants, and no more are admitted than the limit allows. A caller that leaves before that is not
// counted, and a tenant with damaged counts does not affect the others.
func TestSQLiteChargesTogether(t *testing.T) {
	t.Parallel()
	s, set := shops.Faulty(t, &sqlstore.Options{LockWait: waits.Patience})
	sqltest.Exec(t, s.DB, "CREATE TRIGGER no BEFORE INSERT ON retrysafe_records_limits WHEN NEW.tenant = CAST('bad' AS BLOB) BEGIN SELECT raise(ABORT, 'no'); END")
	limits := storeapi.Limits{Live: 3}
	_, err := s.Store.Charge(t.Context(), storeapi.ChargeRequest{Namespace: "app", Tenant: "damaged", Keys: 1, For: time.Hour})
	assert.NoError(t, err, "the counts to damage")
	sqltest.Exec(t, s.DB, "UPDATE retrysafe_records_limits SET counts = x'010203'")

	var commits atomic.Int32
	reached, held := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(held) })
	defer goOn()
	set(func(step string, run func() error) error {
		if (step == "COMMIT" || step == "commit") && commits.Add(1) == 1 {
			close(reached)
			<-held
		}
		return run()
	})
	first := make(chan error, 1)
	go func() {
		_, err := s.Store.Charge(t.Context(), storeapi.ChargeRequest{Namespace: "app", Tenant: "a", Keys: 1, For: time.Hour})
		first <- err
	}()
	waits.Soon(t, reached, "the first commit: it must not wait for others")
	ctx, leave := context.WithCancel(t.Context())
	gone := chargeAll(ctx, s.Store, limits, "b")
	ends := chargeAll(t.Context(), s.Store, limits, "a", "bad", "b", "a", "a", "b", "b", "b")
	_, err = s.Store.Charge(t.Context(), storeapi.ChargeRequest{Namespace: "app", Tenant: "damaged", Keys: 1, For: time.Hour})
	assert.Contains(t, fmt.Sprint(err), "damaged", "damaged counts, while the file is held")
	leave()
	err = waits.Soon(t, gone[0], "one who left")
	assert.ErrorIs(t, err, retrysafe.ErrTooLate, "one who left")
	assert.Contains(t, fmt.Sprint(err), "nothing was changed", "one who left")
	goOn()
	assert.NoError(t, waits.Soon(t, first, "the first"), "the first")
	counted := map[string]int{}
	for i, tenant := range []string{"a", "bad", "b", "a", "a", "b", "b", "b"} {
		switch err := waits.Soon(t, ends[i], "a charge of the group"); {
		case tenant == "bad":
			assert.Contains(t, fmt.Sprint(err), "no", "what the database refuses")
		case err == nil:
			counted[tenant]++
		default:
			assert.ErrorIs(t, err, errOverLimit, "tenant %s", tenant)
		}
	}
	assert.Equal(t, fmt.Sprint(counted), "map[a:2 b:3]", "what was counted of each tenant")
	assert.Equal(t, commits.Load(), int32(2), "commits of 8 charges")
}

// TestSQLChargesAtOnce: however many charges come at once, through two stores on one table, as many
// are admitted as the limit allows.
func TestSQLChargesAtOnce(t *testing.T) {
	t.Parallel()
	postgres, mysql := servers.StartPostgres(t).URL(), servers.StartMySQL(t).DSN()
	for name, open := range map[string]func(*testing.T) (*sqlstore.Store, *sql.DB){
		"postgres": func(t *testing.T) (*sqlstore.Store, *sql.DB) {
			t.Helper()
			return teststores.Postgres(t, postgres, nil)
		},
		"mysql": func(t *testing.T) (*sqlstore.Store, *sql.DB) { t.Helper(); return teststores.MySQL(t, mysql, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var counted [20]atomic.Int32 // by tenant
			var all sync.WaitGroup
			for range 2 {
				s, db := open(t)
				db.SetMaxOpenConns(4)
				for i := range 200 {
					all.Go(func() {
						got, err := s.Charge(t.Context(), storeapi.ChargeRequest{
							Namespace: "app", Tenant: fmt.Sprint(i % len(counted)), Keys: 1, For: time.Hour, Limits: storeapi.Limits{Live: 15},
						})
						if err != nil {
							t.Errorf("Charge: %v", err)
						}
						if got.OK {
							counted[i%len(counted)].Add(1)
						}
					})
				}
			}
			all.Wait()
			for i := range counted {
				assert.Equal(t, counted[i].Load(), int32(15), "what was taken of 20 of tenant %d", i)
			}
		})
	}
}
