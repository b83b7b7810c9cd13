package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestServerTx: the guarantees of DoTx with concurrent writers.
func TestServerTx(t *testing.T) {
	t.Parallel()
	shops.EachServerAndWords(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		for name, part := range map[string]func(*testing.T, func(*testing.T) *shops.Shop){
			"both or neither": txBothOrNeither, "permanent": txPermanent, "duplicates": txDuplicates,
			"duplicate of a running one": txDuplicateOfARunningOne, "waiter runs after rollback": txWaiterRunsAfterRollback,
		} {
			// one after the other: they share tables
			t.Run(name, func(t *testing.T) { part(t, server.Shop) })
		}
	})
}

// TestServerTxProcesses: a duplicate in another process waits for the transaction as long as its
// policy says, and gets its answer. Other keys do not wait.
func TestServerTxProcesses(t *testing.T) {
	t.Parallel()
	shops.EachServerAndWords(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		a, b := server.Shop(t), server.Process(t)
		refused := errors.New("out of stock")
		for _, result := range []error{nil, refused} {
			customer := fmt.Sprint("ada ", result)
			finish := a.BlockedOrder(t, customer, result)
			for _, wait := range []time.Duration{-1, time.Millisecond} {
				_, err := b.Order(t.Context(), customer, retrysafe.WithPolicy(retrysafe.Policy{Wait: wait}))
				assert.ErrorIs(t, err, retrysafe.ErrInProgress, "a duplicate that waits %v", wait)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, err := b.Order(ctx, customer, retrysafe.WithPolicy(retrysafe.Policy{Wait: time.Minute}))
			cancel()
			assert.ErrorIs(t, err, context.DeadlineExceeded, "a duplicate whose context ends")
			b.WantOnce(t, fmt.Sprint("bob ", result), "another's open transaction")
			waiter := make(chan retrysafe.Result[int64], 1)
			go func() {
				res, err := b.Order(context.Background(), customer, retrysafe.WithPolicy(retrysafe.Policy{Wait: time.Minute}))
				if err != nil {
					t.Errorf("a duplicate that waits: %v", err)
				}
				waiter <- res
			}()
			assert.True(t, errors.Is(finish(), result) || result == nil, "the first")
			assert.Equal(t, waits.Soon(t, waiter, "the waiter").Replayed, result == nil, "whether the waiter was given the answer of the first")
			a.WantOnce(t, customer, "a duplicate that waited")
		}
	})
}

// TestServerTxEndedByTheWork: what the work has committed itself is in doubt, and so is what it may
// have written after ROLLBACK as text. What it has rolled back never happened.
func TestServerTxEndedByTheWork(t *testing.T) {
	t.Parallel()
	shops.EachServer(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		for name, c := range map[string]struct {
			end   func(context.Context, *sql.Tx) error
			doubt bool
		}{
			"tx.Commit":              {func(_ context.Context, tx *sql.Tx) error { return tx.Commit() }, true},
			"tx.Commit and an error": {func(_ context.Context, tx *sql.Tx) error { return errors.Join(tx.Commit(), errors.New("too late")) }, true},
			"tx.Rollback":            {func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() }, false},
			"ROLLBACK": {func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "ROLLBACK")
				return err
			}, server.Dialect == sqlstore.PostgreSQL},
			"a failed statement that is not told": {func(ctx context.Context, tx *sql.Tx) error {
				if _, err := tx.ExecContext(ctx, "INSERT INTO orders (customer) VALUES (NULL)"); err == nil {
					return errors.New("there was to be an error")
				}
				if server.Dialect == sqlstore.MySQL {
					// It undoes only that statement there, and the transaction continues.
					return errors.New("the error is told")
				}
				return nil
			}, false},
			"the record removed": {func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "DELETE FROM retrysafe_records")
				return err
			}, false},
			"the record of another fence": {func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE retrysafe_records SET fence = fence + 1")
				return err
			}, false},
		} {
			t.Run(name, func(t *testing.T) {
				s := server.Shop(t)
				_, err := retrysafe.DoTx(t.Context(), s.Engine, s.Store, teststores.OrderKey("ada"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
					id, err := shops.Insert(ctx, tx, "ada")
					return id, errors.Join(err, c.end(ctx, tx))
				})
				assert.True(t, err != nil, "it is an error")
				assert.Equal(t, errors.Is(err, retrysafe.ErrInDoubt), c.doubt, "in doubt: %v", err)
				if !c.doubt {
					s.WantNothing(t, "ada", name)
					s.WantOnce(t, "ada", name)
					return
				}
				assert.ErrorIs(t, err, retrysafe.ErrTxEnded, "the error")
				rec := s.Record(t, "ada")
				assert.True(t, rec.InDoubt(), "the record is in doubt")
				before := s.Orders(t, "ada")
				_, err = s.Order(t.Context(), "ada")
				assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "a repeat")
				assert.Equal(t, s.Orders(t, "ada"), before, "orders")
			})
		}
	})
}

// TestServerTxDeadlock: of two works that wait for each other the database rolls one back. It gets
// an error, and its effect is undone, also if it ignores the error and continues. With RetryWork it
// runs again.
func TestServerTxDeadlock(t *testing.T) {
	t.Parallel()
	shops.EachServer(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		s := server.Shop(t)
		sqltest.Exec(t, s.DB, "CREATE TABLE IF NOT EXISTS stock (id INT PRIMARY KEY, n INT NOT NULL)")
		sqltest.Exec(t, s.DB, "INSERT INTO stock VALUES (1, 0), (2, 0)")
		for name, c := range map[string]struct {
			retries int
			silent  bool
		}{"told": {}, "not told": {silent: true}, "made anew": {retries: 5}} {
			var both, all sync.WaitGroup
			both.Add(2)
			met := [2]bool{}
			errs := [2]error{}
			for i, customer := range []string{name + " ada", name + " bob"} {
				all.Go(func() {
					_, errs[i] = retrysafe.DoTx(t.Context(), s.Engine, s.Store, teststores.OrderKey(customer), func(ctx context.Context, tx *sql.Tx) (int64, error) {
						id, err := shops.Insert(ctx, tx, customer)
						take := func(n int) error {
							_, err := tx.ExecContext(ctx, fmt.Sprint("UPDATE stock SET n = n + 1 WHERE id = ", n))
							return err
						}
						err = errors.Join(err, take(1+i))
						if !met[i] {
							met[i] = true
							both.Done()
							both.Wait()
						}
						if err == nil {
							err = take(2 - i)
						}
						if err != nil && c.silent {
							_, _ = shops.Insert(ctx, tx, customer)
							return id, nil
						}
						return id, err
					}, retrysafe.RetryWork(c.retries))
				})
			}
			all.Wait()
			failed := 0
			for i, customer := range []string{name + " ada", name + " bob"} {
				if errs[i] != nil {
					failed++
					s.WantNothing(t, customer, name)
				}
				s.WantOnce(t, customer, name)
			}
			want := 1
			if c.retries > 0 {
				want = 0
			}
			assert.Equal(t, failed, want, "calls that failed, %s: %v", name, errs)
		}
	})
}

// TestServerTxSession: connections are returned unchanged, and the work runs in the application's
// own session settings.
func TestServerTxSession(t *testing.T) {
	t.Parallel()
	shops.EachServerAndWords(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		s := server.Shop(t)
		s.DB.SetMaxOpenConns(1)
		ask := "SELECT current_setting('lock_timeout')"
		if server.Dialect == sqlstore.MySQL {
			ask = "SELECT concat(@@innodb_lock_wait_timeout, ' ', @@lock_wait_timeout, ' ', @@time_zone, ' ', @@sql_mode)"
		}
		setting := func(db interface {
			QueryRowContext(context.Context, string, ...any) *sql.Row
		},
		) (v string) {
			assert.NoError(t, db.QueryRowContext(t.Context(), ask).Scan(&v), "ask")
			return v
		}
		before := setting(s.DB)
		for _, result := range []error{nil, errors.New("no"), retrysafe.Permanent("no", errors.New("no"))} {
			_, err := retrysafe.DoTx(t.Context(), s.Engine, s.Store, teststores.OrderKey(fmt.Sprint("ada ", result)), func(ctx context.Context, tx *sql.Tx) (int64, error) {
				assert.Equal(t, setting(tx), before, "in the work")
				return 0, result
			}, retrysafe.WithPolicy(retrysafe.Policy{Wait: 7 * time.Second}))
			assert.ErrorIs(t, err, result, "DoTx")
			assert.Equal(t, setting(s.DB), before, "behind it")
			sqltest.Exec(t, s.DB, fmt.Sprintf("INSERT INTO orders (customer) VALUES ('autocommit %v')", result))
		}
		assert.Equal(t, sqltest.Count(t, server.Process(t).DB, "orders"), 3, "what the application has written behind it, seen by others")
	})
}

// TestServerTxReplays: duplicates of finished work do not block each other, in one process or in
// several. Nor do they block a transaction of the caller that has read the answer and continues.
func TestServerTxReplays(t *testing.T) {
	t.Parallel()
	shops.EachServerAndWords(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		a, b := server.Shop(t), server.Process(t)
		a.WantOnce(t, "ada", "nothing")
		var all sync.WaitGroup
		for i := range 8 {
			s := []*shops.Shop{a, b}[i%2]
			all.Go(func() {
				for range 20 {
					if res, err := s.Order(t.Context(), "ada"); err != nil || !res.Replayed {
						t.Errorf("a repeat: %+v, %v", res, err)
					}
				}
			})
		}
		all.Wait()
		tx, err := a.DB.BeginTx(t.Context(), nil)
		assert.NoError(t, err, "begin")
		defer tx.Rollback() // it only reads
		_, err = retrysafe.DoTx(t.Context(), a.Engine, a.Store.In(tx), teststores.OrderKey("ada"), func(context.Context, *sql.Tx) (int64, error) { return 0, errors.New("it runs") })
		assert.NoError(t, err, "a repeat in a transaction of the caller")
		ctx, cancel := context.WithTimeout(t.Context(), waits.Patience)
		defer cancel()
		res, err := b.Order(ctx, "ada")
		assert.True(t, err == nil && res.Replayed, "a repeat beside it: %+v, %v", res, err)
	})
}

// TestServerTxRollsBackItself: work that rolls back before it returns a deadlock error runs again
// if that is allowed.
func TestServerTxRollsBackItself(t *testing.T) {
	t.Parallel()
	shops.EachServer(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		s := server.Shop(t)
		runs := 0
		_, err := retrysafe.DoTx(t.Context(), s.Engine, s.Store, teststores.OrderKey("ada"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
			runs++
			id, err := shops.Insert(ctx, tx, "ada")
			if runs == 1 {
				return id, errors.Join(tx.Rollback(), err, errLost{})
			}
			return id, err
		}, retrysafe.RetryWork(3))
		assert.True(t, err == nil || errors.Is(err, retrysafe.ErrTxEnded) && !errors.Is(err, retrysafe.ErrInDoubt), "DoTx: %v", err)
		s.WantOnce(t, "ada", "a rollback of the work")
	})
}

// errLost looks like the error of a transaction that the database aborted in favour of another one.
type errLost struct{ Number uint16 }

func (errLost) Error() string { return "deadlock" }

func (errLost) SQLState() string { return "40P01" }

// TestServerTxBothAtOnce: of two processes that begin one key at the same moment, the second gets
// an error at once and does not wait for the other's work.
func TestServerTxBothAtOnce(t *testing.T) {
	t.Parallel()
	shops.EachServerAndWords(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		a, b := server.Shop(t), server.Process(t)
		for round := range 10 {
			release := make(chan struct{})
			ended := make(chan error, 2)
			for _, s := range []*shops.Shop{a, b} {
				go func() {
					_, err := retrysafe.DoTx(t.Context(), s.Engine, s.Store, teststores.OrderKey(fmt.Sprint(round)), func(ctx context.Context, tx *sql.Tx) (int64, error) {
						<-release
						return 1, nil
					})
					ended <- err
				}()
			}
			select {
			case err := <-ended:
				assert.ErrorIs(t, err, retrysafe.ErrInProgress, "the second")
			case <-time.After(waits.Patience):
				t.Error("the second waits for the work of the first")
			}
			close(release)
			assert.NoError(t, waits.Soon(t, ended, "the first"), "the first")
		}
	})
}

// TestServerTxServerHangs: a server that accepts statements and answers none holds a call for its
// context and about a second. Then the key is free for other callers of the process.
func TestServerTxServerHangs(t *testing.T) {
	t.Parallel()
	postgres, mysql := servers.StartPostgres(t), servers.StartMySQL(t)
	for name, c := range map[string]struct {
		server shops.Database
		stall  func() func()
	}{
		"PostgreSQL": {shops.OnPostgres(postgres.URL()), postgres.Stall},
		"MariaDB":    {shops.OnMySQL(mysql.DSN()), mysql.Stall},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := c.server.Shop(t)
			resume := func() {}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := retrysafe.DoTx(ctx, s.Engine, s.Store, teststores.OrderKey("ada"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
					resume = c.stall()
					return shops.Insert(ctx, tx, "ada")
				})
				ended <- err
			}()
			select {
			case err := <-ended:
				assert.True(t, err != nil, "it fails")
			case <-time.After(waits.Patience):
				t.Error("the call hangs past its context")
			}
			resume()
			_, err := s.Order(t.Context(), "ada", retrysafe.WithPolicy(retrysafe.Policy{Wait: waits.Patience}))
			assert.NoError(t, err, "the order when the server goes on")
			s.WantOnce(t, "ada", "a server that hung")
		})
	}
}
