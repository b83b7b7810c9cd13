package sql_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// heldCommit makes the first commit wait for goOn, and counts all commits.
func heldCommit() (f sqltest.Fault, reached <-chan struct{}, goOn func(), commits *atomic.Int32) {
	there, held := make(chan struct{}), make(chan struct{})
	commits = new(atomic.Int32)
	return func(step string, run func() error) error {
		if step == "commit" && commits.Add(1) == 1 {
			close(there)
			<-held
		}
		return run()
	}, there, sync.OnceFunc(func() { close(held) }), commits
}

// acquireAll begins keys at once, and waits until all of them are queued. ends are their results,
// in the order of the keys.
func acquireAll(ctx context.Context, s *sqlstore.Store, keys ...string) (ends []chan error) {
	ends = make([]chan error, len(keys))
	for i, key := range keys {
		end := make(chan error, 1)
		ends[i] = end
		go func() {
			a, err := s.Acquire(ctx, teststores.Request(key))
			if err == nil && a.Status != storeapi.StatusAcquired {
				err = fmt.Errorf("%s: status %d", key, a.Status)
			}
			end <- err
		}()
	}
	for s.Waiting() < len(keys) && ctx.Err() == nil {
		<-time.After(time.Millisecond)
	}
	return ends
}

func numberedNames(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(prefix, i)
	}
	return all
}

// TestSQLiteGroupCommit: calls that come during a commit are the next commit, and a single call
// waits for no other.
func TestSQLiteGroupCommit(t *testing.T) {
	t.Parallel()
	s, set := shops.Faulty(t, nil)
	f, reached, goOn, commits := heldCommit()
	defer goOn()
	set(f)
	first := make(chan error, 1)
	go func() { _, err := s.Store.Acquire(t.Context(), teststores.Request("first")); first <- err }()
	waits.Soon(t, reached, "the first commit: it must not wait for others")
	ends := acquireAll(t.Context(), s.Store, numberedNames("key ", 100)...)
	goOn()
	assert.NoError(t, waits.Soon(t, first, "the first call"), "the first call")
	for _, end := range ends {
		assert.NoError(t, waits.Soon(t, end, "a call of the group"), "a call of the group")
	}
	assert.Equal(t, commits.Load(), int32(2), "commits of 101 calls")
}

// TestSQLiteGroupCommitOff: each call is a separate transaction.
func TestSQLiteGroupCommitOff(t *testing.T) {
	t.Parallel()
	db, set := sqltest.OpenFaulty(t, sqltest.SQLiteDSN(sqltest.NewFile(t)))
	s := teststores.SQLite(t, db, &sqlstore.Options{NoGroupCommit: true})
	var commits atomic.Int32
	set(func(step string, run func() error) error {
		if step == "COMMIT" || step == "commit" {
			commits.Add(1)
		}
		return run()
	})
	var all sync.WaitGroup
	for _, key := range numberedNames("key ", 10) {
		all.Go(func() {
			if _, err := s.Acquire(t.Context(), teststores.Request(key)); err != nil {
				t.Errorf("Acquire: %v", err)
			}
		})
	}
	all.Wait()
	assert.Equal(t, commits.Load(), int32(10), "commits of 10 calls")
}

// TestSQLiteGroupOneFails: a call that the database refuses does not affect the others.
func TestSQLiteGroupOneFails(t *testing.T) {
	t.Parallel()
	s, set := shops.Faulty(t, nil)
	sqltest.Exec(t, s.DB, "CREATE TRIGGER no BEFORE INSERT ON retrysafe_records WHEN instr(NEW.parts, CAST('bad' AS BLOB)) > 0 BEGIN SELECT raise(ABORT, 'no'); END")
	f, reached, goOn, _ := heldCommit()
	defer goOn()
	set(f)
	go func() { _, _ = s.Store.Acquire(t.Context(), teststores.Request("first")) }()
	waits.Soon(t, reached, "the first commit")
	ends := acquireAll(t.Context(), s.Store, "a", "b", "bad", "c", "d")
	goOn()
	for i, end := range ends {
		err := waits.Soon(t, end, "a call of the group")
		assert.Equal(t, err != nil, i == 2, "call %d: %v", i, err)
	}
}

// TestSQLiteGroupCommitReplyLost: if the outcome of the commit is unknown, each call of the group
// finds its own result again.
func TestSQLiteGroupCommitReplyLost(t *testing.T) {
	t.Parallel()
	for _, applied := range []bool{true, false} {
		s, set := shops.Faulty(t, nil)
		f, reached, goOn, commits := heldCommit()
		defer goOn()
		set(func(step string, run func() error) error {
			if step == "commit" && commits.Load() == 1 {
				commits.Add(1)
				if !applied {
					return sqltest.ErrCut
				}
				return errors.Join(run(), sqltest.ErrCut)
			}
			return f(step, run)
		})
		go func() { _, _ = s.Store.Acquire(t.Context(), teststores.Request("first")) }()
		waits.Soon(t, reached, "the first commit")
		ends := acquireAll(t.Context(), s.Store, numberedNames("key ", 5)...)
		goOn()
		for i, end := range ends {
			assert.Contains(t, fmt.Sprint(waits.Soon(t, end, "a call of the group")), "it is unknown", "call %d, applied: %v", i, applied)
		}
		for _, key := range numberedNames("key ", 5) {
			rec, err := s.Store.Lookup(t.Context(), teststores.Request(key).Key)
			assert.NoError(t, err, "Lookup")
			assert.Equal(t, rec.Attempt == 1, applied, "whether %s was begun", key)
			a, err := s.Store.Acquire(t.Context(), teststores.Request(key))
			assert.NoError(t, err, "the same call again")
			assert.True(t, a.Status == storeapi.StatusAcquired && a.Record.Attempt == 1, "the same call again: %+v", a)
		}
	}
}

// TestSQLiteGroupCallerLeaves: the end of one caller's context stops neither the transaction nor
// the others. A caller whose call has not begun gets an error that nothing was changed, and that
// stays true. If the call has begun, the error says that the outcome is unknown. From then on a
// caller may reuse what it passed.
func TestSQLiteGroupCallerLeaves(t *testing.T) {
	t.Parallel()
	s, set := shops.Faulty(t, nil)
	a, err := s.Store.Acquire(t.Context(), teststores.Request("begun"))
	assert.NoError(t, err, "Acquire")
	f, reached, goOn, _ := heldCommit()
	defer goOn()
	set(f)
	ctx, cancel := context.WithCancel(t.Context())
	body := []byte("the answer")
	begun := make(chan error, 1)
	go func() {
		_, err := s.Store.Complete(ctx, storeapi.CompleteRequest{
			Key: a.Record.Key, Owner: a.Record.Owner, Fence: a.Record.Fence, State: retrysafe.StateCompleted,
			Answer: retrysafe.Answer{Kept: true, Codec: "raw", Body: body},
		})
		begun <- err
	}()
	waits.Soon(t, reached, "the first commit")
	waiting := acquireAll(ctx, s.Store, "waiting")
	stays := acquireAll(t.Context(), s.Store, "stays")
	cancel()
	err = waits.Soon(t, begun, "the call that has begun")
	assert.ErrorIs(t, err, context.Canceled, "the call that has begun")
	assert.True(t, strings.Contains(err.Error(), "it is unknown"), "what it is told: %v", err)
	copy(body, "overwritten")
	err = waits.Soon(t, waiting[0], "the call that has not begun")
	assert.ErrorIs(t, err, context.Canceled, "the call that has not begun")
	assert.True(t, strings.Contains(err.Error(), "nothing was changed"), "what it is told: %v", err)
	goOn()
	assert.NoError(t, waits.Soon(t, stays[0], "the call that stays"), "the call that stays")
	rec, err := s.Store.Lookup(t.Context(), teststores.Request("waiting").Key)
	assert.NoError(t, err, "Lookup")
	assert.Equal(t, rec.State, retrysafe.State(0), "the record of the call that had not begun")
	got, err := s.Store.Acquire(t.Context(), teststores.Request("begun"))
	assert.NoError(t, err, "Acquire again")
	assert.Equal(t, string(got.Record.Answer.Body), "the answer", "what was kept")
}

// TestSQLiteGroupOneKey: calls for one key run one at a time, in the order in which they came.
func TestSQLiteGroupOneKey(t *testing.T) {
	t.Parallel()
	s, _ := shops.Faulty(t, nil)
	var won, refused atomic.Int32
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			req := teststores.Request("one")
			req.Owner = teststores.Owner(fmt.Sprint(i))
			a, err := s.Store.Acquire(t.Context(), req)
			switch {
			case err != nil:
				t.Errorf("Acquire: %v", err)
			case a.Status == storeapi.StatusAcquired:
				won.Add(1)
			case a.Status == storeapi.StatusInProgress:
				refused.Add(1)
			}
		})
	}
	all.Wait()
	assert.Equal(t, won.Load(), int32(1), "wins")
	assert.Equal(t, refused.Load(), int32(39), "others")
}
