package sql_test

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
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// faultOnce is a fault at the first step with that name. applied says whether the step is still
// done.
func faultOnce(name string, applied bool) sqltest.Fault {
	hit := false
	return func(step string, run func() error) error {
		if hit || step != name {
			return run()
		}
		hit = true
		if !applied {
			return sqltest.ErrCut
		}
		return errors.Join(run(), sqltest.ErrCut)
	}
}

// TestSQLiteTxCommitReplyLost: the outcome of a COMMIT without a reply is found out before the
// caller gets its answer.
func TestSQLiteTxCommitReplyLost(t *testing.T) {
	t.Parallel()
	for _, conns := range []int{0, 1} {
		s, set := shops.Faulty(t, nil)
		s.DB.SetMaxOpenConns(conns)

		set(faultOnce("commit", true))
		res, err := s.Order(t.Context(), "ada")
		assert.NoError(t, err, "DoTx whose COMMIT was applied")
		assert.True(t, res.Stored && !res.Replayed, "the result of a COMMIT that was applied: %+v", res)
		s.WantOnce(t, "ada", "a lost reply")

		set(faultOnce("commit", false))
		_, err = s.Order(t.Context(), "bob")
		assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "DoTx whose COMMIT was not applied")
		assert.ErrorIs(t, err, sqltest.ErrCut, "DoTx whose COMMIT was not applied")
		s.WantNothing(t, "bob", "a COMMIT that was not applied")
		s.WantOnce(t, "bob", "a COMMIT that was not applied")
	}
}

// TestSQLiteTxUnconfirmed: if the outcome of the COMMIT cannot be found out, the caller gets an
// error that says so.
func TestSQLiteTxUnconfirmed(t *testing.T) {
	t.Parallel()
	for _, applied := range []bool{true, false} {
		s, set := shops.Faulty(t, nil)
		down := false
		set(func(step string, run func() error) error {
			if down {
				return sqltest.ErrCut
			}
			if step == "commit" {
				down = true
				if applied {
					return errors.Join(run(), sqltest.ErrCut)
				}
				return sqltest.ErrCut
			}
			return run()
		})
		_, err := s.Order(t.Context(), "ada")
		assert.ErrorIs(t, err, retrysafe.ErrUnconfirmed, "DoTx whose COMMIT is unknown")
		set(nil)
		want := 0
		if applied {
			want = 1
		}
		assert.Equal(t, s.Orders(t, "ada"), want, "orders after a COMMIT that was applied: %v", applied)
		s.WantOnce(t, "ada", "an unknown COMMIT")
	}
}

// TestSQLiteTxFailsAtEveryStep: wherever the database fails, either both effect and record exist or
// neither.
func TestSQLiteTxFailsAtEveryStep(t *testing.T) {
	t.Parallel()
	s, set := shops.Faulty(t, nil)
	for at := range 40 {
		for _, applied := range []bool{true, false} {
			customer, n, hit := fmt.Sprint("customer ", at, applied), 0, ""
			set(func(step string, run func() error) error {
				n++
				if n != at+1 {
					return run()
				}
				hit = step
				if applied {
					return errors.Join(run(), sqltest.ErrCut)
				}
				return sqltest.ErrCut
			})
			_, err := s.Order(t.Context(), customer)
			set(nil)
			kept := s.Record(t, customer).State == retrysafe.StateCompleted
			assert.Equal(t, s.Orders(t, customer) == 1, kept, "effect and record after a failure of %q", hit)
			assert.True(t, err != nil || kept, "success means that it is kept, failure of %q", hit)
			s.WantOnce(t, customer, "a failure of "+hit)
			if hit == "" {
				assert.True(t, at > 8, "the steps of a transaction were all cut: %d", at)
				return
			}
		}
	}
	t.Error("a transaction has more steps than were tried")
}

// TestSQLiteCallsFailAtEveryStep: a store call that fails was applied or not, and the repeated call
// is answered as if it had not failed.
func TestSQLiteCallsFailAtEveryStep(t *testing.T) {
	t.Parallel()
	s, set := shops.Faulty(t, nil)
	for at := range 30 {
		for _, applied := range []bool{true, false} {
			req := teststores.Request(fmt.Sprint(at, applied))
			n, hit := 0, ""
			set(func(step string, run func() error) error {
				n++
				if n%30 != at {
					return run()
				}
				hit += " " + step
				if applied {
					return errors.Join(run(), sqltest.ErrCut)
				}
				return sqltest.ErrCut
			})
			var a storeapi.Acquired
			repeatCall(t, func() (err error) { a, err = s.Store.Acquire(t.Context(), req); return err })
			assert.Equal(t, a.Status, storeapi.StatusAcquired, "status of a repeat after%s", hit)
			assert.Equal(t, a.Record.Attempt, 1, "attempt of a repeat after%s", hit)
			end := storeapi.CompleteRequest{
				Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence, State: retrysafe.StateCompleted,
				Answer: retrysafe.Answer{Codec: "raw", Body: []byte("once"), Kept: true},
			}
			repeatCall(t, func() error { _, err := s.Store.Complete(t.Context(), end); return err })
			set(nil)
			rec, err := s.Store.Lookup(t.Context(), req.Key)
			assert.NoError(t, err, "Lookup")
			assert.Equal(t, string(rec.Answer.Body), "once", "answer after%s", hit)
		}
	}
}

// repeatCall repeats a call a few times, as an engine does.
func repeatCall(t *testing.T, call func() error) {
	t.Helper()
	var err error
	for range 5 {
		if err = call(); err == nil {
			return
		}
		assert.True(t, !errors.Is(err, retrysafe.ErrLeaseLost), "a repeat by the owner: %v", err)
	}
	assert.NoError(t, err, "the last of many repeats")
}

// TestSQLiteTxContextEnds: whenever the context ends, either both effect and record exist or
// neither, and the next call is not blocked.
func TestSQLiteTxContextEnds(t *testing.T) {
	t.Parallel()
	s := shops.NewFile(t)
	usual := time.Second // what a call takes, which depends on the machine's load
	ended := 0
	for i := range 60 {
		customer := fmt.Sprint("customer ", i)
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(usual))
		begun := time.Now()
		_, err := s.Order(ctx, customer)
		if usual = time.Since(begun); err != nil {
			usual = 2*usual + time.Millisecond
		}
		cancel()
		if err != nil {
			ended++
			assert.True(t, errors.Is(err, context.DeadlineExceeded), "the error of a call whose context ended: %v", err)
		}
		kept := s.Record(t, customer).State == retrysafe.StateCompleted
		assert.Equal(t, s.Orders(t, customer) == 1, kept, "effect and record after the context ended")
		assert.Equal(t, kept, err == nil, "success means that it is kept, an error that it is not")
		s.WantOnce(t, customer, "the context ended")
	}
	assert.True(t, ended > 0, "some contexts ended during the call")
}

// TestSQLiteTxContextEndsInTheWork: the transaction ends with the context, whatever the work does
// about it.
func TestSQLiteTxContextEndsInTheWork(t *testing.T) {
	t.Parallel()
	s := shops.NewFile(t)
	for name, result := range map[string]error{"success": nil, "a refusal": retrysafe.Permanent("no", errors.New("no"))} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := retrysafe.DoTx(ctx, s.Engine, s.Store, teststores.OrderKey(name), func(ctx context.Context, tx *sql.Tx) (int64, error) {
			id, err := shops.Insert(ctx, tx, name)
			cancel()
			<-ctx.Done()
			return id, errors.Join(err, result)
		})
		assert.True(t, err != nil, "%s in a context that has ended is an error", name)
		s.WantNothing(t, name, "the context ended")
		s.WantOnce(t, name, "the context ended")
	}
}

// TestSQLiteTooLateBehindALock: an Acquire is too late if it is too late when it writes, not when
// it was sent.
func TestSQLiteTooLateBehindALock(t *testing.T) {
	t.Parallel()
	clock, path := storetest.NewClock(), sqltest.NewFile(t)
	db, set := sqltest.OpenFaulty(t, sqltest.SQLiteDSN(path))
	s := teststores.SQLite(t, db, &sqlstore.Options{Now: clock.Now})
	release := sqltest.HoldFile(t, path)
	defer release()
	set(func(step string, run func() error) error {
		err := run()
		if strings.Contains(step, "WHERE id = 0") && err != nil { // it has found the lock held
			clock.Advance(2 * time.Minute)
			release()
		}
		return err
	})
	req := teststores.Request("a")
	req.NotAfter = clock.Now().Add(time.Minute)
	_, err := s.Acquire(t.Context(), req)
	assert.ErrorIs(t, err, retrysafe.ErrTooLate, "Acquire whose time passed while it waited")
	set(nil)
	rec, err := s.Lookup(t.Context(), req.Key)
	assert.NoError(t, err, "Lookup")
	assert.Equal(t, rec.State, 0, "state")
}

// TestSQLiteWritersQueue: while one call writes, the others of its store wait in order and do not
// poll the file.
func TestSQLiteWritersQueue(t *testing.T) {
	t.Parallel()
	s, set := shops.Faulty(t, nil)
	finish := s.BlockedOrder(t, "ada", nil)
	var tries atomic.Int32
	set(func(step string, run func() error) error {
		if step == "BEGIN IMMEDIATE" || step == "begin" {
			tries.Add(1)
		}
		return run()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			_, err := s.Store.Acquire(ctx, teststores.Request(fmt.Sprint(i)))
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Acquire beside an open transaction: %v", err)
			}
		})
	}
	all.Wait()
	assert.Equal(t, tries.Load(), int32(0), "transactions that were tried meanwhile")
	assert.NoError(t, finish(), "the open transaction")
}

// TestSQLiteErrorsHideKeys: errors of drivers and of the store can be logged.
func TestSQLiteErrorsHideKeys(t *testing.T) {
	t.Parallel()
	s, set := shops.Faulty(t, nil)
	const secret = "sk-live-4242"
	var said []error
	for _, step := range []string{"begin", "commit"} {
		set(func(name string, run func() error) error {
			if strings.HasPrefix(strings.ToLower(name), step) {
				return errors.New("the driver fails")
			}
			return run()
		})
		_, err := s.Order(t.Context(), secret)
		_, err2 := s.Store.Acquire(t.Context(), teststores.Request(secret+step))
		said = append(said, err, err2)
	}
	set(nil)
	sqltest.Exec(t, s.DB, "CREATE TRIGGER no BEFORE INSERT ON retrysafe_records BEGIN SELECT raise(ABORT, 'no'); END")
	_, err := s.Order(t.Context(), secret+"2")
	_, err2 := s.Store.Acquire(t.Context(), teststores.Request(secret+"3"))
	said = append(said, err, err2)
	n := 0
	for _, err := range said {
		if err != nil {
			n++
			assert.True(t, !strings.Contains(err.Error(), secret), "the error does not show the key: %v", err)
		}
	}
	assert.True(t, n >= 5, "calls that failed: %d", n)
}
