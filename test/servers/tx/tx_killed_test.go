package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/child"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

func init() {
	child.Parts["server order"] = func(args []string) error { return playServerOrder(args, (*shops.Shop).PlainOrder) }
	child.Parts["server step"] = func(args []string) error { return playServerOrder(args, (*shops.Shop).StepOrder) }
}

// playServerOrder makes an order and is killed before or after a step of it. Arguments: dialect,
// DSN, customer, number of the step, "before" or "after".
func playServerOrder(args []string, order func(*shops.Shop, context.Context, string) error) error {
	s := shops.Database{Driver: args[0], Dialect: sqlstore.PostgreSQL, DSN: args[1]}
	if s.Driver == "mysql" {
		s.Dialect = sqlstore.MySQL
	}
	shop, set, err := s.FaultyShop()
	if err != nil {
		return err
	}
	var at int
	if _, err := fmt.Sscan(args[3], &at); err != nil {
		return err
	}
	n := 0
	set(func(_ string, run func() error) error {
		if n++; n-1 != at {
			return run()
		}
		if args[4] == "after" {
			_ = run()
		}
		child.Die()
		return nil
	})
	err = order(shop, context.Background(), args[2])
	return errors.Join(errors.New("the point was not reached"), err)
}

// TestServerTxKilledAtAPoint: a process that dies before or after any statement leaves both effect
// and record, or neither, and its key is free or answered.
func TestServerTxKilledAtAPoint(t *testing.T) {
	t.Parallel()
	shops.EachServer(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		s := server.Shop(t)
		steps := server.Steps(t, (*shops.Shop).PlainOrder)
		kept := false // true from the commit on
		for i, step := range steps {
			for _, when := range []string{"before", "after"} {
				kept = kept || step == "commit" && when == "after"
				customer := fmt.Sprint("killed ", when, " ", i)
				dead := child.Start(t, "server order", server.Driver, server.DSN, customer, fmt.Sprint(i), when)
				assert.True(t, dead.Wait(t), "the child was killed %s %s", when, step)
				// What the server still does for the dead process must end.
				_, err := s.Order(t.Context(), customer, retrysafe.WithPolicy(retrysafe.Policy{Wait: waits.Patience}))
				assert.NoError(t, err, "the order after a kill %s %s", when, step)
				s.WantOnce(t, customer, "a kill "+when+" "+step)
				rec := s.Record(t, customer)
				assert.Equal(t, rec.Attempt, 1, "attempts of a process that was killed %s %s", when, step)
			}
		}
		assert.True(t, kept, "a commit was among %q", steps)
	})
}

// TestServerTxCutAtAPoint: if any statement fails or loses its reply, both effect and record exist,
// or neither. The call itself recovers what it can.
func TestServerTxCutAtAPoint(t *testing.T) {
	t.Parallel()
	shops.EachServer(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		s := server.Shop(t)
		steps := server.Steps(t, (*shops.Shop).PlainOrder)
		for i, step := range steps {
			for _, applied := range []bool{false, true} {
				shop, set, err := server.FaultyShop()
				assert.NoError(t, err, "a shop")
				n := 0
				set(func(_ string, run func() error) error {
					if n++; n-1 != i {
						return run()
					}
					if !applied {
						return sqltest.ErrCut
					}
					return errors.Join(run(), sqltest.ErrCut)
				})
				customer := fmt.Sprint("cut ", i, applied)
				res, err := shop.Order(t.Context(), customer)
				where := fmt.Sprintf("%q (%d) failed, applied: %v: %v", step, i, applied, err)
				if err == nil {
					assert.Equal(t, s.Orders(t, customer), 1, "orders after an answer, %s", where)
				}
				if step == "commit" {
					assert.Equal(t, err == nil && res.Stored, applied, "the answer, %s", where)
				}
				if err != nil {
					assert.True(t, !strings.Contains(err.Error(), customer), "the error does not show the key: %v", err)
					s.WantNothing(t, customer, where)
				}
				_, err = s.Order(t.Context(), customer, retrysafe.WithPolicy(retrysafe.Policy{Wait: waits.Patience}))
				assert.NoError(t, err, "the order, %s", where)
				s.WantOnce(t, customer, where)
				assert.NoError(t, shop.DB.Close(), "close")
			}
		}
	})
}

// TestServerStepsKilledAtAPoint: a process dies before or after any statement of a call with a step
// in a transaction. The call that continues finds the step done with its effect, or neither.
func TestServerStepsKilledAtAPoint(t *testing.T) {
	t.Parallel()
	shops.EachServer(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		s := server.Shop(t)
		for i, step := range server.Steps(t, (*shops.Shop).StepOrder) {
			for _, when := range []string{"before", "after"} {
				customer := fmt.Sprint("killed ", when, " ", i)
				dead := child.Start(t, "server step", server.Driver, server.DSN, customer, fmt.Sprint(i), when)
				assert.True(t, dead.Wait(t), "the child was killed %s %s", when, step)
				waits.Until(t.Context(), func() bool {
					// What the server still does for the dead process must end, and the lease must
					// expire.
					sqltest.Exec(t, s.DB, "UPDATE retrysafe_records SET lease_end = 1 WHERE state = 2 AND lease_end > 1")
					return s.StepOrder(t.Context(), customer) == nil
				})
				assert.Equal(t, s.Orders(t, customer), 1, "orders after a kill %s %s", when, step)
			}
		}
	})
}

// TestSoakServerTxKilled: processes are killed at any statement, again and again: no double and no
// lost effects.
func TestSoakServerTxKilled(t *testing.T) {
	t.Parallel()
	rounds := 5
	if waits.LongSoak() {
		rounds = 1000
	}
	shops.EachServer(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		s := server.Shop(t)
		for part, order := range map[string]func(*shops.Shop, context.Context, string) error{"server order": (*shops.Shop).PlainOrder, "server step": (*shops.Shop).StepOrder} {
			steps := server.Steps(t, order)
			for round := range rounds {
				at, when := rand.N(len(steps)), []string{"before", "after"}[rand.N(2)]
				customer := fmt.Sprint(part, " ", round)
				dead := child.Start(t, part, server.Driver, server.DSN, customer, fmt.Sprint(at), when)
				assert.True(t, dead.Wait(t), "the child was killed %s %s", when, steps[at])
				waits.Until(t.Context(), func() bool {
					sqltest.Exec(t, s.DB, "UPDATE retrysafe_records SET lease_end = 1 WHERE state = 2 AND lease_end > 1")
					return order(s, t.Context(), customer) == nil
				})
				assert.Equal(t, s.Orders(t, customer), 1, "orders after a kill %s %s", when, steps[at])
			}
		}
		t.Logf("%d kills, 0 double, 0 lost", 2*rounds)
	})
}

// TestServerTxRestarts: a server crashes under load. Each order that was answered is there once,
// and so is each whose caller kept retrying.
func TestServerTxRestarts(t *testing.T) {
	t.Parallel()
	postgres, mysql := servers.StartPostgres(t, "-c", "fsync=on"), servers.StartMySQL(t, "--innodb-flush-log-at-trx-commit=1")
	for name, c := range map[string]struct {
		server  shops.Database
		restart func()
	}{
		"PostgreSQL": {shops.OnPostgres(postgres.URL()), func() {
			postgres.Kill()
			postgres.Start(t)
		}},
		"MariaDB": {shops.OnMySQL(mysql.DSN()), func() {
			mysql.Kill()
			mysql.Start(t)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := c.server.Shop(t)
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			var orders, failures atomic.Int64
			for w := range 6 {
				all.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						customer := fmt.Sprint("customer ", w, " ", i)
						waits.Until(t.Context(), func() bool {
							_, err := s.Order(t.Context(), customer, retrysafe.WithPolicy(retrysafe.Policy{Wait: 5 * time.Second}))
							if err != nil {
								failures.Add(1)
							}
							return err == nil
						})
						orders.Add(1)
					}
				})
			}
			for range 3 {
				before := orders.Load()
				waits.Until(t.Context(), func() bool { return orders.Load() >= before+20 })
				c.restart()
			}
			stop()
			all.Wait()
			var doubled sql.NullString
			const twice = "SELECT max(customer) FROM (SELECT customer FROM orders GROUP BY customer HAVING count(*) > 1) AS d"
			assert.NoError(t, s.DB.QueryRowContext(t.Context(), twice).Scan(&doubled), "a customer with two orders")
			assert.Equal(t, sqltest.Count(t, s.DB, "orders"), int(orders.Load()), "orders; two are of %q", doubled.String)
			var customers int
			assert.NoError(t, s.DB.QueryRowContext(t.Context(), "SELECT count(DISTINCT customer) FROM orders").Scan(&customers), "customers")
			assert.Equal(t, customers, int(orders.Load()), "customers that have an order")
			assert.Equal(t, sqltest.Count(t, s.DB, "retrysafe_records WHERE state = 3"), int(orders.Load()), "records")
			t.Logf("%d orders, %d calls that failed", orders.Load(), failures.Load())
		})
	}
}
