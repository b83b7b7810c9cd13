package sql_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
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
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

func TestSQLiteNotMigrated(t *testing.T) {
	t.Parallel()
	s := teststores.NewSQLite(t, sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(sqltest.NewFile(t))), nil)
	ctx, req := t.Context(), teststores.Request("a")
	for name, call := range map[string]func() error{
		"Acquire":  func() error { _, err := s.Acquire(ctx, req); return err },
		"Extend":   func() error { return s.Extend(ctx, storeapi.ExtendRequest{Key: req.Key}) },
		"Complete": func() error { _, err := s.Complete(ctx, storeapi.CompleteRequest{Key: req.Key}); return err },
		"Release":  func() error { return s.Release(ctx, storeapi.ReleaseRequest{Key: req.Key}) },
		"Lookup":   func() error { _, err := s.Lookup(ctx, req.Key); return err },
		"Issue":    func() error { _, err := s.Issue(ctx, storeapi.IssueRequest{Key: req.Key}); return err },
		"List":     func() error { _, err := s.List(ctx, storeapi.ListRequest{}); return err },
		"Sweep":    func() error { _, err := s.Sweep(ctx, 10); return err },
		"RunTx": func() error {
			_, err := s.RunTx(ctx, storeapi.TxRequest{Key: req.Key}, func(context.Context, *sql.Tx) (retrysafe.State, retrysafe.Answer, error) {
				t.Error("work was run without a table")
				return 0, retrysafe.Answer{}, nil
			})
			return err
		},
	} {
		assert.Contains(t, fmt.Sprint(call()), "call Store.Migrate once", "%s on a database without tables", name)
	}
}

func TestSQLiteMigrateIsRepeatable(t *testing.T) {
	t.Parallel()
	path := sqltest.NewFile(t)
	s, db := teststores.OpenSQLite(t, path, nil)
	a, err := s.Acquire(t.Context(), teststores.Request("a"))
	assert.NoError(t, err, "Acquire")
	var together sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		other := teststores.NewSQLite(t, sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(path)), &sqlstore.Options{Table: "second", LockWait: time.Minute})
		together.Go(func() { errs[i] = errors.Join(other.Migrate(t.Context()), s.Migrate(t.Context())) })
	}
	together.Wait()
	assert.NoError(t, errors.Join(errs...), "Migrate by many at once")
	rec, err := s.Lookup(t.Context(), a.Record.Key)
	assert.NoError(t, err, "Lookup")
	assert.Equal(t, rec.Fence, a.Record.Fence, "fence of a record that was there before")
	assert.Equal(t, sqltest.Count(t, db, "second"), 0, "records of another table")
}

func TestSQLiteNewerSchema(t *testing.T) {
	t.Parallel()
	s, db := teststores.OpenSQLite(t, sqltest.NewFile(t), nil)
	sqltest.Exec(t, db, "UPDATE retrysafe_records_meta SET version = 7")
	const want = "was written by a newer retrysafe (schema 7, this build knows 1); update this program, nothing was changed"
	assert.Contains(t, fmt.Sprint(s.Migrate(t.Context())), want, "Migrate")
	_, err := s.Acquire(t.Context(), teststores.Request("a"))
	assert.Contains(t, fmt.Sprint(err), want, "Acquire")
	_, err = s.Sweep(t.Context(), 10)
	assert.Contains(t, fmt.Sprint(err), want, "Sweep")
	_, err = s.List(t.Context(), storeapi.ListRequest{})
	assert.Contains(t, fmt.Sprint(err), want, "List")
	assert.Equal(t, sqltest.Count(t, db, "retrysafe_records"), 0, "records")
}

func TestSQLiteForeignTable(t *testing.T) {
	t.Parallel()
	db := sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(sqltest.NewFile(t)))
	sqltest.Exec(t, db, "CREATE TABLE retrysafe_records (something INTEGER)")
	err := teststores.NewSQLite(t, db, nil).Migrate(t.Context())
	assert.Contains(t, fmt.Sprint(err), "already exists", "the error for a table of somebody else")
	assert.Equal(t, sqltest.Count(t, db, "sqlite_schema"), 1, "tables after it")
}

func TestSQLiteBadFiles(t *testing.T) {
	t.Parallel()
	valid := sqltest.NewFile(t)
	s, db := teststores.OpenSQLite(t, valid, nil)
	_, err := s.Acquire(t.Context(), teststores.Request("a"))
	assert.NoError(t, err, "Acquire")
	sqltest.Exec(t, db, "PRAGMA wal_checkpoint(TRUNCATE)")
	whole, err := os.ReadFile(valid)
	assert.NoError(t, err, "read the file")

	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"text":      {bytes.Repeat([]byte("no database at all\n"), 100), "not a SQLite database"},
		"damaged":   {append(bytes.Clone(whole[:100]), bytes.Repeat([]byte{0xAA}, len(whole)-100)...), "damaged"},
		"cut short": {whole[:len(whole)/4], "damaged"},
	} {
		path := sqltest.NewFile(t)
		assert.NoError(t, os.WriteFile(path, c.content, 0o600), "write the file")
		db := sqltest.Open(t, "sqlite", "file:"+path)
		err := teststores.NewSQLite(t, db, nil).Migrate(t.Context())
		assert.Contains(t, fmt.Sprint(err), c.want, "Migrate on a file that is %s", name)
		after, err := os.ReadFile(path)
		assert.NoError(t, err, "read the file")
		assert.True(t, bytes.Equal(after, c.content), "a file that is %s is left as it is", name)
	}
	err = teststores.NewSQLite(t, sqltest.Open(t, "sqlite", "file:"+t.TempDir()+"/no/such/app.db"), nil).Migrate(t.Context())
	assert.Contains(t, fmt.Sprint(err), "cannot be opened", "Migrate where there is no directory")
}

func TestSQLiteReadOnly(t *testing.T) {
	t.Parallel()
	path := sqltest.NewFile(t)
	writer, _ := teststores.OpenSQLite(t, path, nil)
	a, err := writer.Acquire(t.Context(), teststores.Request("a"))
	assert.NoError(t, err, "Acquire")

	s := teststores.NewSQLite(t, sqltest.Open(t, "sqlite", "file:"+path+"?mode=ro"), nil)
	assert.Contains(t, fmt.Sprint(s.Migrate(t.Context())), "can only be read", "Migrate")
	_, err = s.Acquire(t.Context(), teststores.Request("b"))
	assert.Contains(t, fmt.Sprint(err), "can only be read", "Acquire")
	rec, err := s.Lookup(t.Context(), a.Record.Key)
	assert.NoError(t, err, "Lookup needs no more")
	assert.Equal(t, rec.Fence, a.Record.Fence, "fence")
}

func TestSQLiteLocked(t *testing.T) {
	t.Parallel()
	path := sqltest.NewFile(t)
	patient, db := teststores.OpenSQLite(t, path, &sqlstore.Options{LockWait: time.Minute})
	s := teststores.NewSQLite(t, db, &sqlstore.Options{LockWait: 30 * time.Millisecond})
	done, err := patient.Acquire(t.Context(), teststores.Request("done"))
	assert.NoError(t, err, "Acquire")
	_, err = patient.Complete(t.Context(), storeapi.CompleteRequest{
		Key: done.Record.Key, Owner: done.Record.Owner, Fence: done.Record.Fence, State: retrysafe.StateCompleted,
	})
	assert.NoError(t, err, "Complete")
	release := sqltest.HoldFile(t, path)
	defer release()

	const want = "have held the database file, or all connections to it, for 30ms, and nothing was changed"
	assert.Contains(t, fmt.Sprint(s.Migrate(t.Context())), want, "Migrate")
	_, err = s.Acquire(t.Context(), teststores.Request("b"))
	assert.Contains(t, fmt.Sprint(err), want, "Acquire of a new key")
	assert.True(t, !errors.Is(err, context.DeadlineExceeded), "the caller's context has not ended")
	_, err = s.RunTx(t.Context(), storeapi.TxRequest{Key: teststores.Request("c").Key}, nil)
	assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "RunTx")
	assert.Contains(t, fmt.Sprint(err), want, "RunTx")
	a, err := patient.Acquire(t.Context(), teststores.Request("done"))
	assert.NoError(t, err, "a repeat needs no lock")
	assert.Equal(t, a.Status, storeapi.StatusFinished, "status of a repeat")

	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(5*time.Millisecond, cancel).Stop()
	_, err = patient.Acquire(ctx, teststores.Request("d"))
	assert.ErrorIs(t, err, context.Canceled, "Acquire whose context ends")
	release()
	won, err := patient.Acquire(t.Context(), teststores.Request("d"))
	assert.NoError(t, err, "Acquire after the lock")
	assert.Equal(t, won.Status, storeapi.StatusAcquired, "status")
}

// TestSQLiteBusyTimeoutOfTheCaller: SQLite's own waiting would ignore the context. Its setting must
// be the same afterwards.
func TestSQLiteBusyTimeoutOfTheCaller(t *testing.T) {
	t.Parallel()
	path := sqltest.NewFile(t)
	db := sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(path, "busy_timeout(3600000)"))
	db.SetMaxOpenConns(1)
	s := teststores.SQLite(t, db, nil)
	release := sqltest.HoldFile(t, path)
	defer release()
	begun := time.Now()
	for name, call := range map[string]func(context.Context) error{
		"Acquire": func(ctx context.Context) error { _, err := s.Acquire(ctx, teststores.Request("a")); return err },
		"RunTx": func(ctx context.Context) error {
			_, err := s.RunTx(ctx, teststores.TxRequest("b"), teststores.NoEffect)
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		assert.ErrorIs(t, call(ctx), context.DeadlineExceeded, "%s", name)
		cancel()
	}
	assert.True(t, time.Since(begun) < time.Minute, "calls end with their contexts, and not with busy_timeout: %v", time.Since(begun))
	release()
	rec, err := s.RunTx(t.Context(), teststores.TxRequest("c"), teststores.NoEffect)
	assert.NoError(t, err, "RunTx after the lock")
	assert.Equal(t, rec.State, retrysafe.StateCompleted, "state")
	var timeout int
	assert.NoError(t, db.QueryRowContext(t.Context(), "PRAGMA busy_timeout").Scan(&timeout), "busy_timeout")
	assert.Equal(t, timeout, 3600000, "busy_timeout of the caller's connection")
}

// TestSQLitePoolInUse: a call that waits for the only connection holds up no other call beyond that
// call's own context, also if it is the first one and has to prepare statements.
func TestSQLitePoolInUse(t *testing.T) {
	t.Parallel()
	db := sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(sqltest.NewFile(t)))
	db.SetMaxOpenConns(1)
	s := teststores.SQLite(t, db, &sqlstore.Options{LockWait: waits.Long})
	conn, err := db.Conn(t.Context())
	assert.NoError(t, err, "the only connection")
	run := func(ctx context.Context, id string) <-chan error {
		ended := make(chan error, 1)
		go func() {
			_, err := s.RunTx(ctx, teststores.TxRequest(id), teststores.NoEffect)
			ended <- err
		}()
		return ended
	}
	patient := run(t.Context(), "patient")
	waits.Eventually(t, "a call waits for the connection", func() bool { return db.Stats().WaitCount > 0 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, waits.Soon(t, run(ctx, "hasty"), "the end of a call"), context.DeadlineExceeded, "a call with a short context")
	assert.NoError(t, conn.Close(), "give the connection back")
	assert.NoError(t, waits.Soon(t, patient, "the end of the first call"), "the call that waited")
}

// TestSQLiteOtherDSNs: the caller's settings that change how transactions begin, or how text is
// parsed.
func TestSQLiteOtherDSNs(t *testing.T) {
	t.Parallel()
	path := sqltest.NewFile(t)
	for _, param := range []string{"_txlock=immediate", "_txlock=exclusive", "_texttotime=1&_inttotime=1&_time_format=sqlite"} {
		s := shops.New(t, sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(path)+"&"+param), nil)
		s.WantOnce(t, param, "nothing")
		release := sqltest.HoldFile(t, path)
		_, err := s.Hasty(t).Order(t.Context(), "beside a lock")
		assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "an order beside a lock, with %s", param)
		release()
		req := teststores.Request(param)
		a, err := s.Store.Acquire(t.Context(), req)
		assert.NoError(t, err, "Acquire")
		err = s.Store.Release(t.Context(), storeapi.ReleaseRequest{
			Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence, InDoubt: true, LastError: "2026-03-29 01:02:03",
		})
		assert.NoError(t, err, "Release")
		rec, err := s.Store.Lookup(t.Context(), req.Key)
		assert.NoError(t, err, "Lookup")
		assert.Equal(t, rec.LastError, "2026-03-29 01:02:03", "a text that looks like a time, with %s", param)
	}
}

// TestSQLiteFull: a file that may not grow refuses whole answers and stores no part of them.
func TestSQLiteFull(t *testing.T) {
	t.Parallel()
	db := sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(sqltest.NewFile(t), "max_page_count(60)"))
	s := teststores.SQLite(t, db, nil)
	sqltest.Exec(t, db, "CREATE TABLE effects (x BLOB)")
	a, err := s.Acquire(t.Context(), teststores.Request("a"))
	assert.NoError(t, err, "Acquire")
	end := storeapi.CompleteRequest{
		Key: a.Record.Key, Owner: a.Record.Owner, Fence: a.Record.Fence, State: retrysafe.StateCompleted,
		Answer: retrysafe.Answer{Codec: "raw", Body: make([]byte, 1<<20), Kept: true},
	}
	_, err = s.Complete(t.Context(), end)
	assert.Contains(t, fmt.Sprint(err), "the disk is full", "Complete with an answer that has no room")
	rec, err := s.Lookup(t.Context(), a.Record.Key)
	assert.NoError(t, err, "Lookup")
	assert.Equal(t, rec.State, retrysafe.StateInProgress, "state after it")
	assert.Equal(t, rec.Answer, retrysafe.Answer{}, "answer after it")

	_, err = s.RunTx(t.Context(), teststores.TxRequest("b"), func(ctx context.Context, tx *sql.Tx) (retrysafe.State, retrysafe.Answer, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (x'01')")
		return retrysafe.StateCompleted, end.Answer, err
	})
	assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "RunTx with an answer that has no room")
	assert.Equal(t, sqltest.Count(t, db, "effects"), 0, "effects after it")

	end.Answer.Body = []byte("short")
	rec, err = s.Complete(t.Context(), end)
	assert.NoError(t, err, "Complete with an answer that has room")
	assert.Equal(t, rec.State, retrysafe.StateCompleted, "state")
}

func TestSQLiteSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pragmas string
		want    []string
	}{
		"as documented":    {"journal_mode(WAL)&_pragma=synchronous(FULL)", nil},
		"extra":            {"journal_mode(WAL)&_pragma=synchronous(EXTRA)", nil},
		"normal":           {"journal_mode(WAL)&_pragma=synchronous(NORMAL)", []string{"loses the last commits"}},
		"off":              {"journal_mode(WAL)&_pragma=synchronous(OFF)", []string{"can damage the file"}},
		"rollback journal": {"journal_mode(DELETE)", []string{"unless synchronous is EXTRA", "calls that only read wait"}},
		"no journal":       {"journal_mode(OFF)&_pragma=synchronous(OFF)", []string{"journal_mode is off", "synchronous is OFF"}},
	} {
		log := new(teststores.Log)
		db := sqltest.Open(t, "sqlite", "file:"+sqltest.NewFile(t)+"?_pragma="+c.pragmas)
		teststores.SQLite(t, db, &sqlstore.Options{Logger: log.Logger()})
		for _, want := range c.want {
			assert.Contains(t, log.String(), want, "warnings of %s", name)
		}
		assert.Equal(t, strings.Count(log.String(), "\n"), len(c.want), "number of warnings of %s: %s", name, log)
	}
	memory := sqltest.Open(t, "sqlite", ":memory:")
	err := teststores.NewSQLite(t, memory, nil).Migrate(t.Context())
	assert.Contains(t, fmt.Sprint(err), "SetMaxOpenConns(1)", "Migrate on a database for each connection")
	memory.SetMaxOpenConns(1)
	s := teststores.SQLite(t, memory, &sqlstore.Options{Logger: slog.New(slog.DiscardHandler)})
	a, err := s.Acquire(t.Context(), teststores.Request("a"))
	assert.NoError(t, err, "Acquire in memory")
	assert.Equal(t, a.Status, storeapi.StatusAcquired, "status in memory")
}

// TestSQLiteClockReport: a record from the future is reported, once.
func TestSQLiteClockReport(t *testing.T) {
	t.Parallel()
	path, clock, log := sqltest.NewFile(t), storetest.NewClock(), new(teststores.Log)
	s, _ := teststores.OpenSQLite(t, path, &sqlstore.Options{Now: clock.Now})
	a, err := s.Acquire(t.Context(), teststores.Request("a")) // a lease of a minute
	assert.NoError(t, err, "Acquire")
	late, _ := teststores.OpenSQLite(t, path, &sqlstore.Options{Logger: log.Logger(), Now: func() time.Time { return clock.Now().Add(-5 * time.Second) }})
	_, err = late.Lookup(t.Context(), a.Record.Key)
	assert.NoError(t, err, "Lookup")
	assert.Equal(t, log.String(), "", "reports of a clock that is off by less than a tenth of the lease")
	later := teststores.NewSQLite(t, sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(path)),
		&sqlstore.Options{Logger: log.Logger(), Now: func() time.Time { return clock.Now().Add(-7 * time.Second) }})
	for range 3 {
		req := teststores.Request("b")
		req.Key = a.Record.Key
		got, err := later.Acquire(t.Context(), req)
		assert.NoError(t, err, "Acquire")
		assert.Equal(t, got.Status, storeapi.StatusInProgress, "status")
	}
	assert.Equal(t, strings.Count(log.String(), "in the future of this machine's clock"), 1, "reports: %s", log)
	assert.Contains(t, log.String(), "ahead=7s", "report")
}
