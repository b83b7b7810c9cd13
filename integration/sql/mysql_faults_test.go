package sql_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/integration/internal/servers"
	"github.com/retrysafe/retrysafe/integration/internal/teststores"
	"github.com/retrysafe/retrysafe/integration/internal/waits"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/sqlstore"
)

// Beginnings of the statements of a transaction.
const (
	mysqlBegins  = "SET @retrysafe_autocommit"
	mysqlLocks   = "FOR UPDATE"
	mysqlWrites  = "INSERT INTO"
	mysqlCommits = "SET autocommit ="
)

// TestMySQLCommitComesLate: a commit that was sent in time but reaches the server too late is not
// carried out.
func TestMySQLCommitComesLate(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	proxy := servers.StartSQLProxy(t, server.Port, servers.MySQLMessage)
	s, _ := teststores.MySQL(t, server.At(proxy.Addr), nil)
	direct, _ := teststores.MySQL(t, server.DSN(), nil)
	now := func() time.Time {
		rec, err := direct.Lookup(t.Context(), teststores.Request("nobody").Key)
		assert.NoError(t, err, "Lookup")
		return rec.Now
	}
	for name, hangUp := range map[string]bool{"the caller waits": false, "the caller has gone": true} {
		req := teststores.Request(name)
		req.NotAfter = now().Add(300 * time.Millisecond)
		release := proxy.Set(mysqlCommits, servers.LateRequest)
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
		waitMySQLIdle(t, server)
		rec, err := direct.Lookup(t.Context(), req.Key)
		assert.NoError(t, err, "Lookup")
		assert.Equal(t, rec.State, retrysafe.State(0), "%s: what is stored", name)
		_, err = direct.Acquire(t.Context(), teststores.Request(name))
		assert.NoError(t, err, "the next call")
	}
}

// waitMySQLIdle waits until no transaction is open on the server.
func waitMySQLIdle(t *testing.T, server *servers.MySQL) {
	t.Helper()
	db := teststores.OpenMySQL(t, server.DSN())
	waits.Until(t.Context(), func() bool {
		return mysqlTransactions(t, db, `SELECT count(*) FROM information_schema.innodb_trx`) == 0
	})
}

// TestMySQLConnectionCut: whichever message or reply is lost, the same call again by the same owner
// finds the outcome of the first one, and nothing is done twice. The store itself recovers from a
// loss before the commit.
func TestMySQLConnectionCut(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	proxy := servers.StartSQLProxy(t, server.Port, servers.MySQLMessage)
	s, _ := teststores.MySQL(t, server.At(proxy.Addr), nil)
	answer := retrysafe.Answer{Kept: true, Codec: "raw", Size: 5, Body: []byte("first")}
	n := 0
	for _, word := range []string{mysqlBegins, mysqlLocks, mysqlWrites, mysqlCommits} {
		for what, name := range map[servers.Cut]string{servers.LoseRequest: "the request", servers.LoseReply: "the reply"} {
			name := fmt.Sprintf("%s of %q is lost", name, word)
			before := word != mysqlCommits
			n++
			req := teststores.Request(fmt.Sprint("key ", n))
			proxy.Set(word, what)
			first, err := s.Acquire(t.Context(), req)
			if before {
				assert.NoError(t, err, "Acquire, %s", name)
			} else {
				assert.Contains(t, fmt.Sprint(err), "nobody knows whether it was carried out", "Acquire, %s", name)
			}
			a, err := s.Acquire(t.Context(), req)
			assert.NoError(t, err, "Acquire again, %s", name)
			assert.Equal(t, a.Status, retrysafe.Won, "Acquire again, %s", name)
			assert.Equal(t, a.Record.Attempt, 1, "attempts, %s", name)
			if before {
				assert.Equal(t, a.Record.Fence, first.Record.Fence, "fence, %s", name)
			}

			end := retrysafe.CompleteRequest{Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence, State: retrysafe.StateCompleted, Answer: answer}
			proxy.Set(word, what)
			_, err = s.Complete(t.Context(), end)
			assert.Equal(t, err == nil, before, "Complete, %s: %v", name, err)
			if what == servers.LoseReply || before {
				end.Answer.Body = []byte("other") // the call again must not replace it
			}
			rec, err := s.Complete(t.Context(), end)
			assert.NoError(t, err, "Complete again, %s", name)
			assert.Equal(t, string(rec.Answer.Body), "first", "the answer, %s", name)
		}
	}
}

// TestMySQLChargeIsNotRepeated: a charge whose commit was not answered returns an error and is not
// sent again. One that was lost before the commit counts once.
func TestMySQLChargeIsNotRepeated(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	proxy := servers.StartSQLProxy(t, server.Port, servers.MySQLMessage)
	s, _ := teststores.MySQL(t, server.At(proxy.Addr), nil)
	chargeIsNotRepeated(t, s, proxy, mysqlBegins, mysqlCommits)
}

// TestMySQLCrashUnderLoad: the server crashes again and again under callers that retry. Of many
// callers for one key exactly one acquires it, and answered calls are there afterwards.
func TestMySQLCrashUnderLoad(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t, "--innodb-flush-log-at-trx-commit=1", "--innodb-flush-method=fsync")
	var stores []*sqlstore.Store
	for range 2 {
		s, _ := teststores.MySQL(t, server.DSN(), nil)
		stores = append(stores, s)
	}
	crashUnderLoad(t, stores, func() { server.Kill(); server.Start(t) })
}
