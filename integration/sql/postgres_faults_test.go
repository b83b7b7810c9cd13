package sql_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/integration/internal/servers"
	"github.com/retrysafe/retrysafe/integration/internal/sqltest"
	"github.com/retrysafe/retrysafe/integration/internal/teststores"
	"github.com/retrysafe/retrysafe/integration/internal/waits"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/sqlstore"
)

// aCommit ends a message with a COMMIT; other messages contain READ COMMITTED.
const aCommit = "COMMIT\x00"

// TestPostgresCommitComesLate: a COMMIT that was sent in time but reaches the server too late is
// not carried out.
func TestPostgresCommitComesLate(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	proxy := servers.StartSQLProxy(t, server.Port, servers.PostgresMessage)
	s, _ := teststores.Postgres(t, server.At(proxy.Addr), nil)
	direct, _ := teststores.Postgres(t, server.URL(), nil)
	now := func() time.Time {
		rec, err := direct.Lookup(t.Context(), teststores.Request("nobody").Key)
		assert.NoError(t, err, "Lookup")
		return rec.Now
	}
	for name, hangUp := range map[string]bool{"the caller waits": false, "the caller has gone": true} {
		req := teststores.Request(name)
		req.NotAfter = now().Add(300 * time.Millisecond)
		release := proxy.Set(aCommit, servers.LateRequest)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { _, err := s.Acquire(ctx, req); done <- err }()
		for passed := false; !passed; { // by the server's clock
			passed = now().After(req.NotAfter)
		}
		var err error
		if hangUp {
			cancel()
			err = <-done
		}
		release()
		if !hangUp {
			err = <-done
			assert.ErrorIs(t, err, retrysafe.ErrTooLate, "%s", name)
		}
		cancel()
		assert.True(t, err != nil, "%s: it fails", name)
		waitIdle(t, server)
		rec, err := direct.Lookup(t.Context(), req.Key)
		assert.NoError(t, err, "Lookup")
		assert.Equal(t, rec.State, retrysafe.State(0), "%s: what is stored", name)
		_, err = direct.Acquire(t.Context(), teststores.Request(name))
		assert.NoError(t, err, "the next call")
	}
}

// waitIdle waits until no transaction is open on the server.
func waitIdle(t *testing.T, server *servers.Postgres) {
	t.Helper()
	db := sqltest.Open(t, "pgx", server.URL())
	for n := 1; n > 0; {
		err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND state <> 'idle' AND pid <> pg_backend_pid()`).Scan(&n)
		assert.NoError(t, err, "look at the server")
	}
}

// TestPostgresConnectionCut: whichever message or reply is lost, the same call again by the same
// owner finds the outcome of the first one, and nothing is done twice. The store itself recovers
// from a loss before COMMIT.
func TestPostgresConnectionCut(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	proxy := servers.StartSQLProxy(t, server.Port, servers.PostgresMessage)
	s, _ := teststores.Postgres(t, server.At(proxy.Addr), nil)
	answer := retrysafe.Answer{Kept: true, Codec: "raw", Size: 5, Body: []byte("first")}
	n := 0
	for _, word := range []string{"BEGIN", aCommit} {
		for what, name := range map[servers.Cut]string{servers.LoseRequest: "the request", servers.LoseReply: "the reply"} {
			name := fmt.Sprintf("%s of %q is lost", name, word)
			n++
			req := teststores.Request(fmt.Sprint("key ", n))
			proxy.Set(word, what)
			first, err := s.Acquire(t.Context(), req)
			if word == "BEGIN" {
				assert.NoError(t, err, "Acquire, %s", name)
			} else {
				assert.Contains(t, fmt.Sprint(err), "nobody knows whether it was carried out", "Acquire, %s", name)
			}
			a, err := s.Acquire(t.Context(), req)
			assert.NoError(t, err, "Acquire again, %s", name)
			assert.Equal(t, a.Status, retrysafe.Won, "Acquire again, %s", name)
			assert.Equal(t, a.Record.Attempt, 1, "attempts, %s", name)
			if word == "BEGIN" {
				assert.Equal(t, a.Record.Fence, first.Record.Fence, "fence, %s", name)
			}

			end := retrysafe.CompleteRequest{Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence, State: retrysafe.StateCompleted, Answer: answer}
			proxy.Set(word, what)
			_, err = s.Complete(t.Context(), end)
			assert.Equal(t, err == nil, word == "BEGIN", "Complete, %s: %v", name, err)
			if what == servers.LoseReply || word == "BEGIN" {
				end.Answer.Body = []byte("other") // the call again must not replace it
			}
			rec, err := s.Complete(t.Context(), end)
			assert.NoError(t, err, "Complete again, %s", name)
			assert.Equal(t, string(rec.Answer.Body), "first", "the answer, %s", name)
		}
	}
}

// TestPostgresChargeIsNotRepeated: a charge whose COMMIT was not answered returns an error and is
// not sent again. One that was lost before COMMIT counts once.
func TestPostgresChargeIsNotRepeated(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	proxy := servers.StartSQLProxy(t, server.Port, servers.PostgresMessage)
	s, _ := teststores.Postgres(t, server.At(proxy.Addr), nil)
	chargeIsNotRepeated(t, s, proxy, "BEGIN", aCommit)
}

// TestPostgresCrashUnderLoad: the server crashes again and again under callers that retry. Of many
// callers for one key exactly one acquires it, and answered calls are there afterwards.
func TestPostgresCrashUnderLoad(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t, "-c", "fsync=on")
	var stores []*sqlstore.Store
	for range 2 {
		s, _ := teststores.Postgres(t, server.URL(), nil)
		stores = append(stores, s)
	}
	crashUnderLoad(t, stores, func() { server.Kill(); server.Start(t) })
}

// insist claims a key and completes it, and repeats each call until it is answered.
func insist(ctx context.Context, s *sqlstore.Store, id, by string) (won bool, err error) {
	req := teststores.Request(id)
	req.Owner = teststores.Owner(by)
	var a retrysafe.Acquired
	waits.Until(ctx, func() bool { a, err = s.Acquire(ctx, req); return err == nil })
	if err != nil || a.Status != retrysafe.Won {
		return false, err
	}
	waits.Until(ctx, func() bool {
		_, err = s.Complete(ctx, retrysafe.CompleteRequest{
			Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence, State: retrysafe.StateCompleted, Answer: retrysafe.Answer{Kept: true, Codec: "raw"},
		})
		return err == nil
	})
	return true, err
}

// TestPostgresPoolIsTaken: without a free connection a call ends with its context or after
// LockWait, and says what to do.
func TestPostgresPoolIsTaken(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	s, db := teststores.Postgres(t, server.URL(), &sqlstore.Options{LockWait: 50 * time.Millisecond})
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(t.Context())
	assert.NoError(t, err, "the only connection")
	_, err = s.Acquire(t.Context(), teststores.Request("a"))
	assert.Contains(t, fmt.Sprint(err), "give the pool more connections", "Acquire")
	_, err = s.Charge(t.Context(), retrysafe.ChargeRequest{Namespace: "app", Keys: 1, For: time.Hour})
	assert.ErrorIs(t, err, retrysafe.ErrTooLate, "Charge")
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = s.Acquire(ctx, teststores.Request("a"))
	assert.ErrorIs(t, err, context.DeadlineExceeded, "Acquire with a short context")
	assert.NoError(t, conn.Close(), "give it back")
	var a retrysafe.Acquired
	waits.Until(t.Context(), func() bool { // 50 ms are short on a busy machine
		a, err = s.Acquire(t.Context(), teststores.Request("a"))
		return err == nil
	})
	assert.NoError(t, err, "Acquire")
	assert.Equal(t, a.Status, retrysafe.Won, "Acquire")
}

// TestPostgresHeldRowTakesOneConnection: calls that wait for a held row leave the pool to others.
func TestPostgresHeldRowTakesOneConnection(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	s, db := teststores.Postgres(t, server.URL(), &sqlstore.Options{LockWait: waits.Long})
	_, others := teststores.Postgres(t, server.URL(), nil)
	db.SetMaxOpenConns(2)
	release := holdRow(t, others, sqlstore.DefaultTable, teststores.Request("held").Key)
	var waiting sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for i := range 8 {
		req := teststores.Request("held")
		req.Owner = teststores.Owner(fmt.Sprint(i))
		waiting.Go(func() { _, _ = s.Acquire(ctx, req) })
	}
	for n := 0; n == 0; { // until the first of them waits on the server
		err := others.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`).Scan(&n)
		assert.NoError(t, err, "look at the server")
	}
	for i := range 20 {
		short, end := context.WithTimeout(t.Context(), waits.Patience)
		a, err := s.Acquire(short, teststores.Request(fmt.Sprint("free ", i)))
		end()
		assert.NoError(t, err, "another key")
		assert.Equal(t, a.Status, retrysafe.Won, "another key")
	}
	cancel()
	waiting.Wait()
	release()
}
