package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
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

// TestSQLiteTxEndedByTheWork: if the work ends the transaction itself, DoTx returns an error that
// says so. What it has committed is in doubt, since the part after its COMMIT may be missing, and
// so is what it may have written after a rollback by a statement. What it has rolled back with
// tx.Rollback never happened.
func TestSQLiteTxEndedByTheWork(t *testing.T) {
	t.Parallel()
	statement := func(q string) func(context.Context, *sql.Tx) error {
		return func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, q)
			return err
		}
	}
	for name, c := range map[string]struct {
		end   func(context.Context, *sql.Tx) error
		doubt bool
	}{
		"tx.Commit":     {func(_ context.Context, tx *sql.Tx) error { return tx.Commit() }, true},
		"tx.Rollback":   {func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() }, false},
		"COMMIT":        {statement("COMMIT"), true},
		"COMMIT, BEGIN": {statement("COMMIT; BEGIN"), true},
		"ROLLBACK":      {statement("ROLLBACK"), true},
		"an OR ROLLBACK clause": {func(ctx context.Context, tx *sql.Tx) error {
			_ = statement("INSERT OR ROLLBACK INTO orders VALUES (1, NULL)")(ctx, tx)
			return nil
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shops.NewFile(t)
			_, err := retrysafe.DoTx(t.Context(), s.Engine, s.Store, teststores.OrderKey("ada"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
				id, err := shops.Insert(ctx, tx, "ada")
				return id, errors.Join(err, c.end(ctx, tx))
			})
			assert.Contains(t, fmt.Sprint(err), "the work has ended the transaction by itself", "the error")
			assert.ErrorIs(t, err, retrysafe.ErrTxEnded, "the error")
			if !c.doubt {
				assert.True(t, !errors.Is(err, retrysafe.ErrInDoubt), "nothing is in doubt: %v", err)
				s.WantNothing(t, "ada", name)
				s.WantOnce(t, "ada", name)
				return
			}
			assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "the error")
			rec := s.Record(t, "ada")
			assert.True(t, rec.InDoubt(), "the record is in doubt: %+v", rec)
			_, err = s.Order(t.Context(), "ada")
			assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "a repeat")
			assert.True(t, s.Orders(t, "ada") <= 1, "orders: %d", s.Orders(t, "ada"))
			s.WantOnce(t, "bob", "another's mistake") // the connection has kept nothing of it
		})
	}
}

// TestSQLiteTxCommittedAndFailed: an error of work that has committed itself, and a context that
// ends after its COMMIT, must not look like a rollback.
func TestSQLiteTxCommittedAndFailed(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(cancel func()) error{
		"returns an error":  func(func()) error { return errors.New("too late") },
		"its context ended": func(cancel func()) error { cancel(); return nil },
		"both":              func(cancel func()) error { cancel(); return errors.New("too late") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shops.NewFile(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err := retrysafe.DoTx(ctx, s.Engine, s.Store, teststores.OrderKey("ada"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
				id, err := shops.Insert(ctx, tx, "ada")
				return id, errors.Join(err, tx.Commit(), after(cancel))
			})
			assert.ErrorIs(t, err, retrysafe.ErrTxEnded, "the error")
			assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "the error")
			_, ok := retrysafe.Retryable(err)
			assert.True(t, !ok, "it is not to be retried: %v", err)
			rec := s.Record(t, "ada")
			assert.True(t, rec.InDoubt(), "the record is in doubt: %+v", rec)
		})
	}
}

// TestSQLiteTxRecordTouchedByTheWork: the record must belong to this attempt until the end.
func TestSQLiteTxRecordTouchedByTheWork(t *testing.T) {
	t.Parallel()
	for _, q := range []string{
		"DELETE FROM retrysafe_records",
		"UPDATE retrysafe_records SET fence = fence + 1",
		"UPDATE retrysafe_records SET owner = zeroblob(16)",
		"UPDATE retrysafe_records SET state = 5",
	} {
		s := shops.NewFile(t)
		_, err := retrysafe.DoTx(t.Context(), s.Engine, s.Store, teststores.OrderKey("ada"), func(ctx context.Context, tx *sql.Tx) (int64, error) {
			_, err := tx.ExecContext(ctx, q)
			assert.NoError(t, err, "%s", q)
			return shops.Insert(ctx, tx, "ada")
		})
		assert.Contains(t, fmt.Sprint(err), "removed or changed the record of its own key", "the error after %s", q)
		s.WantNothing(t, "ada", q)
	}
}

func TestSQLiteTxAttachedFile(t *testing.T) {
	t.Parallel()
	s := shops.NewFile(t)
	s.DB.SetMaxOpenConns(1)
	sqltest.Exec(t, s.DB, "ATTACH ? AS archive", filepath.Join(t.TempDir(), "archive.db"))
	_, err := s.Order(t.Context(), "ada")
	assert.Contains(t, fmt.Sprint(err), "another file attached", "DoTx beside an attached file")
	s.WantNothing(t, "ada", "the refusal")
	_, ran, err := s.Join(t, "ada", nil)
	assert.Contains(t, fmt.Sprint(err), "another file attached", "a joined DoTx beside an attached file")
	assert.Equal(t, ran, false, "a joined DoTx beside an attached file has called the work")
	s.WantNothing(t, "ada", "the refusal of a joined DoTx")
	sqltest.Exec(t, s.DB, "DETACH archive")
	s.WantOnce(t, "ada", "the file was detached")
}

// TestSQLiteTxFenceAboveRemoved: the fence of a new record is larger than that of any removed one,
// even if the clock was set back.
func TestSQLiteTxFenceAboveRemoved(t *testing.T) {
	t.Parallel()
	s := shops.NewFile(t)
	future := time.Now().Add(time.Hour).UnixMicro()
	sqltest.Exec(t, s.DB, fmt.Sprint("UPDATE retrysafe_records_meta SET fence_floor = ", future))
	for _, customer := range []string{"ada", "bob"} {
		res, err := s.Order(t.Context(), customer)
		assert.NoError(t, err, "DoTx with a clock that was set back")
		assert.Equal(t, int64(res.Fence), future+1, "the fence of %s", customer)
	}
	_, ran, err := s.Join(t, "eve", nil)
	assert.NoError(t, err, "a joined DoTx with a clock that was set back")
	assert.Equal(t, ran, true, "the work of the joined DoTx has run")
}

// TestSQLiteTxMeetsCommittedRecords: a record that another layer has committed is answered as
// everywhere else.
func TestSQLiteTxMeetsCommittedRecords(t *testing.T) {
	t.Parallel()
	s := shops.NewFile(t)
	never := func(context.Context, *sql.Tx) (int64, error) { t.Error("the work was run"); return 0, nil }
	try := func(id string, opts ...retrysafe.CallOption) error {
		_, err := retrysafe.DoTx(t.Context(), s.Engine, s.Store, teststores.OrderKey(id), never, opts...)
		return err
	}
	layer := s.Engine.Layer("tx")
	running, _, err := layer.Begin(t.Context(), teststores.OrderKey("running"))
	assert.NoError(t, err, "Begin")
	defer func() { _ = running.Release(context.Background(), nil) }()
	assert.ErrorIs(t, try("running"), retrysafe.ErrInProgress, "DoTx of a key that runs elsewhere")
	doubtful, _, err := layer.Begin(t.Context(), teststores.OrderKey("doubtful"))
	assert.NoError(t, err, "Begin")
	assert.NoError(t, doubtful.LeaveInDoubt(t.Context(), errors.New("cut")), "LeaveInDoubt")
	assert.ErrorIs(t, try("doubtful"), retrysafe.ErrInDoubt, "DoTx of a key in doubt")

	// The same owner again: its work has committed itself and died, or this is not a transaction's
	// record at all.
	own := teststores.TxRequest("own")
	_, err = s.Store.Acquire(t.Context(), storeapi.AcquireRequest{Key: own.Key, Owner: own.Owner, Lease: time.Minute, Retention: time.Hour})
	assert.NoError(t, err, "Acquire")
	_, err = s.Store.RunTx(t.Context(), own, func(context.Context, *sql.Tx) (retrysafe.State, retrysafe.Answer, error) {
		t.Error("the work was run")
		return teststores.NoEffect(t.Context(), nil)
	})
	assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "RunTx of a key that its own owner holds")

	_, err = s.Order(t.Context(), "ada", retrysafe.WithPayload("one"), retrysafe.WithBinding([]byte("hers")))
	assert.NoError(t, err, "DoTx")
	assert.ErrorIs(t, try("ada", retrysafe.WithPayload("two")), retrysafe.ErrFingerprintMismatch, "another payload")
	assert.ErrorIs(t, try("ada", retrysafe.WithBinding([]byte("his"))), retrysafe.ErrPrincipalChanged, "another credential")
	reject := retrysafe.WithPolicy(retrysafe.Policy{Duplicate: retrysafe.Reject})
	assert.ErrorIs(t, try("ada", reject), retrysafe.ErrDuplicate, "a duplicate that is to be rejected")
}

// TestSQLiteTxNoUpgradeTrap: a transaction that has read before it writes fails at once (517) if
// another one wrote in between. The claim is the first statement, so commits just before it do no
// harm.
func TestSQLiteTxNoUpgradeTrap(t *testing.T) {
	t.Parallel()
	path := sqltest.NewFile(t)
	db, set := sqltest.OpenFaulty(t, sqltest.SQLiteDSN(path))
	s := shops.New(t, db, nil)
	other := shops.New(t, sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(path)), nil)
	n := 0
	set(func(step string, run func() error) error {
		err := run()
		if step == "begin" && n < 5 {
			n++
			_, err := other.Order(context.Background(), fmt.Sprint("other ", n))
			return err
		}
		return err
	})
	for i := range 5 {
		_, err := s.Order(t.Context(), fmt.Sprint("ours ", i))
		assert.NoError(t, err, "an order after somebody else's commit")
	}
	assert.Equal(t, n, 5, "commits in between")
	assert.Equal(t, sqltest.Count(t, db, "orders"), 10, "orders")
}

// TestSQLiteRollbackJournal: without WAL readers and writers wait for each other, and nothing is
// lost.
func TestSQLiteRollbackJournal(t *testing.T) {
	t.Parallel()
	log := new(teststores.Log)
	db := sqltest.Open(t, "sqlite", "file:"+sqltest.NewFile(t)+"?_pragma=journal_mode(DELETE)&_pragma=synchronous(OFF)")
	s := shops.New(t, db, &sqlstore.Options{LockWait: time.Minute, Logger: log.Logger()})
	const workers, each = 4, 5
	errs := make(chan error, workers*each)
	for w := range workers {
		go func() {
			for i := range each {
				id := fmt.Sprint(w, " ", i)
				_, err := s.Order(context.Background(), id)
				rec, looked := s.Engine.Layer("tx").Lookup(context.Background(), teststores.OrderKey(id))
				if rec.State != retrysafe.StateCompleted {
					looked = errors.Join(looked, fmt.Errorf("state %v", rec.State))
				}
				_, ran := retrysafe.Run(context.Background(), s.Engine, teststores.OrderKey(id), func(context.Context) error { return nil })
				errs <- errors.Join(err, looked, ran)
			}
		}()
	}
	for range workers * each {
		assert.NoError(t, waits.Soon(t, errs, "a worker"), "a call")
	}
	assert.Equal(t, sqltest.Count(t, db, "orders"), workers*each, "orders")
}

// TestSQLiteCommitWaitsForReaders: without WAL a reader blocks a COMMIT, but not the statements
// before it.
func TestSQLiteCommitWaitsForReaders(t *testing.T) {
	t.Parallel()
	dsn := "file:" + sqltest.NewFile(t) + "?_pragma=journal_mode(DELETE)&_pragma=synchronous(OFF)"
	db, set := sqltest.OpenFaulty(t, dsn)
	s := shops.New(t, db, &sqlstore.Options{LockWait: time.Minute, Logger: slog.New(slog.DiscardHandler)})
	s.WantOnce(t, "first", "nothing")
	read := func() (end func()) {
		reader, err := sqltest.Open(t, "sqlite", dsn).BeginTx(t.Context(), nil)
		assert.NoError(t, err, "begin to read")
		var n int
		assert.NoError(t, reader.QueryRowContext(t.Context(), "SELECT count(*) FROM orders").Scan(&n), "read")
		return sync.OnceFunc(func() { _ = reader.Rollback() })
	}

	end := read()
	_, err := s.Hasty(t).Order(t.Context(), "ada")
	assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "an order beside a reader that does not end")
	_, err = s.Hasty(t).Store.Acquire(t.Context(), teststores.Request("a"))
	assert.Contains(t, fmt.Sprint(err), "have held the database file", "Acquire beside a reader that does not end")
	end()
	s.WantNothing(t, "ada", "a COMMIT that could not be")
	rec, err := s.Store.Lookup(t.Context(), teststores.Request("a").Key)
	assert.NoError(t, err, "Lookup")
	assert.Equal(t, rec.State, 0, "state of a key whose COMMIT could not be")

	alone := teststores.NewSQLite(t, db, &sqlstore.Options{LockWait: time.Minute, Logger: slog.New(slog.DiscardHandler), NoGroupCommit: true})
	for name, call := range map[string]func() error{
		"DoTx":     func() error { _, err := s.Order(t.Context(), "bob"); return err },
		"a group":  func() error { _, err := s.Store.Acquire(t.Context(), teststores.Request("b")); return err },
		"one call": func() error { _, err := alone.Acquire(t.Context(), teststores.Request("c")); return err },
	} {
		end := read()
		commits := 0
		set(func(now string, run func() error) error {
			if strings.EqualFold(now, "commit") {
				commits++
				time.AfterFunc(10*time.Millisecond, end)
			}
			return run()
		})
		assert.NoError(t, call(), "%s beside a reader that ends a little later", name)
		set(nil)
		end()
		assert.True(t, commits > 0, "%s commits", name)
	}
}
