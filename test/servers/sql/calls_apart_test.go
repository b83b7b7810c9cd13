package sql_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestCallsApart: slow transactions of the work fill their pool. Heartbeats, claims and completions
// use a separate pool.
func TestCallsApart(t *testing.T) {
	t.Parallel()
	open := map[string]func(*testing.T, *sqlstore.Options) (*sqlstore.Store, *sql.DB){
		"postgres": func(t *testing.T, o *sqlstore.Options) (*sqlstore.Store, *sql.DB) {
			t.Helper()
			server := servers.StartPostgres(t)
			other, err := sql.Open("pgx", server.URL())
			assert.NoError(t, err, "the second pool")
			t.Cleanup(func() { _ = other.Close() })
			if o.StoreDB != nil {
				o.StoreDB = other
			}
			s, db := teststores.Postgres(t, server.URL(), o)
			return s, db
		},
		"mysql": func(t *testing.T, o *sqlstore.Options) (*sqlstore.Store, *sql.DB) {
			t.Helper()
			server := servers.StartMySQL(t)
			other := teststores.OpenMySQL(t, server.DSN())
			if o.StoreDB != nil {
				o.StoreDB = other
			}
			s, db := teststores.MySQL(t, server.DSN(), o)
			return s, db
		},
	}
	for name, open := range open {
		for _, apart := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%v", name, apart), func(t *testing.T) {
				t.Parallel()
				o := &sqlstore.Options{LockWait: waits.Patience}
				if apart {
					o.StoreDB = new(sql.DB) // any but nil
				}
				s, db := open(t, o)
				e := teststores.ShortEngine(t, s, retrysafe.Policy{})
				a, _, err := e.Begin(t.Context(), teststores.OrderKey("runs"))
				assert.NoError(t, err, "an attempt")
				db.SetMaxOpenConns(2)
				begun, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error)
				for i := range 2 {
					go func() {
						_, err := retrysafe.DoTx(t.Context(), e, s, teststores.OrderKey(fmt.Sprint("tx ", i)), func(context.Context, *sql.Tx) (int, error) {
							begun <- struct{}{}
							<-goOn
							return i, nil
						})
						ended <- err
					}()
				}
				for range 2 {
					select {
					case <-begun:
					case err := <-ended:
						t.Fatalf("a transaction has ended before it began: %v", err)
					}
				}
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if !apart {
					ctx, cancel = context.WithTimeout(ctx, 500*time.Millisecond)
				}
				err = a.Extend(ctx)
				cancel()
				assert.Equal(t, err == nil, apart, "a heartbeat while the pool of the work is full: %v", err)
				if apart {
					_, err = retrysafe.Do(t.Context(), e, teststores.OrderKey("new"), func(context.Context) (int, error) { return 1, nil })
					assert.NoError(t, err, "a call without a transaction of the work")
				}
				close(goOn)
				assert.NoError(t, <-ended, "a transaction")
				assert.NoError(t, <-ended, "a transaction")
			})
		}
	}
}
