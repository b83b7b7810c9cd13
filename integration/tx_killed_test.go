package integration_test

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
	"github.com/retrysafe/retrysafe/sqlstore"
)

func init() {
	children["server order"] = func(args []string) error { return playServerOrder(args, (*shop).plainOrder) }
	children["server step"] = func(args []string) error { return playServerOrder(args, (*shop).stepOrder) }
}

func (s *shop) plainOrder(ctx context.Context, customer string) error {
	_, err := s.order(ctx, customer)
	return err
}

// stepOrder makes a call whose one step is an order in a transaction.
func (s *shop) stepOrder(ctx context.Context, customer string) error {
	_, err := retrysafe.Do(ctx, s.engine, orderKey(customer), func(ctx context.Context) (int64, error) {
		return retrysafe.StepTx(ctx, s.store, "order", func(ctx context.Context, tx *sql.Tx) (int64, error) { return insert(ctx, tx, customer) })
	}, retrysafe.WithPolicy(retrysafe.Policy{OnDoubt: retrysafe.Reexecute}))
	return err
}

// faultyShop returns a process whose driver calls the current fault. set sets it.
func (s txServer) faultyShop() (shop *shop, set func(fault), err error) {
	inner, err := sql.Open(s.driver, s.dsn)
	if err != nil {
		return nil, nil, err
	}
	db, set := faultyDB(inner.Driver(), s.dsn)
	db.SetMaxIdleConns(16)
	return s.faulty(db, set)
}

func (s txServer) faulty(db *sql.DB, set func(fault)) (*shop, func(fault), error) {
	store, err := sqlstore.New(db, s.dialect, nil)
	if err != nil {
		return nil, nil, err
	}
	engine := retrysafe.New(store, &retrysafe.Options{Namespace: "app", Secret: []byte("0123456789abcdef"), Sweep: -1})
	return &shop{store: store, engine: engine, db: db}, set, nil
}

// steps returns the statements of an order, as its driver sees them.
func (s txServer) steps(t *testing.T, order func(*shop, context.Context, string) error) (all []string) {
	t.Helper()
	shop, set, err := s.faultyShop()
	assert.NoError(t, err, "a shop")
	defer shop.db.Close()
	set(func(step string, run func() error) error {
		all = append(all, step)
		return run()
	})
	assert.NoError(t, order(shop, t.Context(), "steps"), "an order")
	return all
}

// playServerOrder makes an order and is killed before or after a step of it. Arguments: dialect,
// DSN, customer, number of the step, "before" or "after".
func playServerOrder(args []string, order func(*shop, context.Context, string) error) error {
	s := txServer{driver: args[0], dialect: sqlstore.PostgreSQL, dsn: args[1]}
	if s.driver == "mysql" {
		s.dialect = sqlstore.MySQL
	}
	shop, set, err := s.faultyShop()
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
		die()
		return nil
	})
	err = order(shop, context.Background(), args[2])
	return errors.Join(errors.New("the point was not reached"), err)
}

// TestServerTxKilledAtAPoint: a process that dies before or after any statement leaves both effect
// and record, or neither, and its key is free or answered.
func TestServerTxKilledAtAPoint(t *testing.T) {
	t.Parallel()
	eachTxServer(t, func(t *testing.T, server txServer) {
		t.Helper()
		s := server.shop(t)
		steps := server.steps(t, (*shop).plainOrder)
		kept := false // true from the commit on
		for i, step := range steps {
			for _, when := range []string{"before", "after"} {
				kept = kept || step == "commit" && when == "after"
				customer := fmt.Sprint("killed ", when, " ", i)
				dead := startChild(t, "server order", server.driver, server.dsn, customer, fmt.Sprint(i), when)
				assert.True(t, dead.wait(t), "the child was killed %s %s", when, step)
				// What the server still does for the dead process must end.
				_, err := s.order(t.Context(), customer, retrysafe.WithPolicy(retrysafe.Policy{Wait: patience}))
				assert.NoError(t, err, "the order after a kill %s %s", when, step)
				s.wantOnce(t, customer, "a kill "+when+" "+step)
				rec := s.record(t, customer)
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
	eachTxServer(t, func(t *testing.T, server txServer) {
		t.Helper()
		s := server.shop(t)
		steps := server.steps(t, (*shop).plainOrder)
		for i, step := range steps {
			for _, applied := range []bool{false, true} {
				shop, set, err := server.faultyShop()
				assert.NoError(t, err, "a shop")
				n := 0
				set(func(_ string, run func() error) error {
					if n++; n-1 != i {
						return run()
					}
					if !applied {
						return errCut
					}
					return errors.Join(run(), errCut)
				})
				customer := fmt.Sprint("cut ", i, applied)
				res, err := shop.order(t.Context(), customer)
				where := fmt.Sprintf("%q (%d) failed, applied: %v: %v", step, i, applied, err)
				if err == nil {
					assert.Equal(t, s.orders(t, customer), 1, "orders after an answer, %s", where)
				}
				if step == "commit" {
					assert.Equal(t, err == nil && res.Stored, applied, "the answer, %s", where)
				}
				if err != nil {
					assert.True(t, !strings.Contains(err.Error(), customer), "the error does not show the key: %v", err)
					s.wantNothing(t, customer, where)
				}
				_, err = s.order(t.Context(), customer, retrysafe.WithPolicy(retrysafe.Policy{Wait: patience}))
				assert.NoError(t, err, "the order, %s", where)
				s.wantOnce(t, customer, where)
				assert.NoError(t, shop.db.Close(), "close")
			}
		}
	})
}

// TestServerStepsKilledAtAPoint: a process dies before or after any statement of a call with a step
// in a transaction. The call that continues finds the step done with its effect, or neither.
func TestServerStepsKilledAtAPoint(t *testing.T) {
	t.Parallel()
	eachTxServer(t, func(t *testing.T, server txServer) {
		t.Helper()
		s := server.shop(t)
		for i, step := range server.steps(t, (*shop).stepOrder) {
			for _, when := range []string{"before", "after"} {
				customer := fmt.Sprint("killed ", when, " ", i)
				dead := startChild(t, "server step", server.driver, server.dsn, customer, fmt.Sprint(i), when)
				assert.True(t, dead.wait(t), "the child was killed %s %s", when, step)
				until(t.Context(), func() bool {
					// What the server still does for the dead process must end, and the lease must
					// expire.
					execSQL(t, s.db, "UPDATE retrysafe_records SET lease_end = 1 WHERE state = 2 AND lease_end > 1")
					return s.stepOrder(t.Context(), customer) == nil
				})
				assert.Equal(t, s.orders(t, customer), 1, "orders after a kill %s %s", when, step)
			}
		}
	})
}

// TestSoakServerTxKilled: processes are killed at any statement, again and again: no double and no
// lost effects.
func TestSoakServerTxKilled(t *testing.T) {
	t.Parallel()
	rounds := 5
	if longSoak() {
		rounds = 1000
	}
	eachTxServer(t, func(t *testing.T, server txServer) {
		t.Helper()
		s := server.shop(t)
		for part, order := range map[string]func(*shop, context.Context, string) error{"server order": (*shop).plainOrder, "server step": (*shop).stepOrder} {
			steps := server.steps(t, order)
			for round := range rounds {
				at, when := rand.N(len(steps)), []string{"before", "after"}[rand.N(2)]
				customer := fmt.Sprint(part, " ", round)
				dead := startChild(t, part, server.driver, server.dsn, customer, fmt.Sprint(at), when)
				assert.True(t, dead.wait(t), "the child was killed %s %s", when, steps[at])
				until(t.Context(), func() bool {
					execSQL(t, s.db, "UPDATE retrysafe_records SET lease_end = 1 WHERE state = 2 AND lease_end > 1")
					return order(s, t.Context(), customer) == nil
				})
				assert.Equal(t, s.orders(t, customer), 1, "orders after a kill %s %s", when, steps[at])
			}
		}
		t.Logf("%d kills, 0 double, 0 lost", 2*rounds)
	})
}

// TestServerTxRestarts: a server crashes under load. Each order that was answered is there once,
// and so is each whose caller kept retrying.
func TestServerTxRestarts(t *testing.T) {
	t.Parallel()
	postgres, mysql := startPostgres(t, "-c", "fsync=on"), startMySQL(t, "--innodb-flush-log-at-trx-commit=1")
	for name, c := range map[string]struct {
		server  txServer
		restart func()
	}{
		"PostgreSQL": {onPostgres(postgres.url()), func() {
			postgres.kill()
			postgres.start(t)
		}},
		"MariaDB": {onMySQL(mysql.dsn()), func() {
			mysql.kill()
			mysql.start(t)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := c.server.shop(t)
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			var orders, failures atomic.Int64
			for w := range 6 {
				all.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						customer := fmt.Sprint("customer ", w, " ", i)
						until(t.Context(), func() bool {
							_, err := s.order(t.Context(), customer, retrysafe.WithPolicy(retrysafe.Policy{Wait: 5 * time.Second}))
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
				until(t.Context(), func() bool { return orders.Load() >= before+20 })
				c.restart()
			}
			stop()
			all.Wait()
			assert.Equal(t, count(t, s.db, "orders"), int(orders.Load()), "orders")
			var customers int
			assert.NoError(t, s.db.QueryRowContext(t.Context(), "SELECT count(DISTINCT customer) FROM orders").Scan(&customers), "customers")
			assert.Equal(t, customers, int(orders.Load()), "customers that have an order")
			assert.Equal(t, count(t, s.db, "retrysafe_records WHERE state = 3"), int(orders.Load()), "records")
			t.Logf("%d orders, %d calls that failed", orders.Load(), failures.Load())
		})
	}
}
