package sql_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestMySQLLongParts: parts of a key with the maximum length fit into every index.
func TestMySQLLongParts(t *testing.T) {
	t.Parallel()
	s, _ := teststores.MySQL(t, servers.StartMySQL(t).DSN("sql_mode=%27%27"), nil)
	part := func(seed int) string {
		b := make([]byte, 512)
		for i := range b {
			seed = seed*1103515245 + 12345
			b[i] = byte(seed >> 16)
		}
		return string(b)
	}
	req := teststores.Request("long")
	req.Key = storeapi.StoreKey{Namespace: part(1), Layer: part(2), Key: retrysafe.Key{Tenant: part(3), Operation: part(4), ID: part(5)}}
	a, err := s.Acquire(t.Context(), req)
	assert.NoError(t, err, "Acquire")
	assert.NoError(t, s.Release(t.Context(), storeapi.ReleaseRequest{
		Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence, InDoubt: true, Cause: "a\x00b", LastError: "世界\x00",
	}), "Release")
	page, err := s.List(t.Context(), storeapi.ListRequest{Namespace: part(1), Layer: part(2), Tenant: part(3), Operation: part(4), InDoubt: true})
	assert.NoError(t, err, "List")
	assert.Equal(t, len(page.Records), 1, "records")
	assert.Equal(t, page.Records[0].LastError, "世界\x00", "what people are told")
}

// TestMySQLSameValues: a repeated call that changes nothing, for which the server counts no row, is
// a success and not a lost lease.
func TestMySQLSameValues(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	for _, found := range []string{"clientFoundRows=false", "clientFoundRows=true"} {
		s, _ := teststores.MySQL(t, server.DSN(found), nil)
		req := teststores.Request(found)
		a, err := s.Acquire(t.Context(), req)
		assert.NoError(t, err, "Acquire")
		end := storeapi.CompleteRequest{Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence, State: retrysafe.StateCompleted, Answer: retrysafe.Answer{Kept: true, Codec: "raw"}}
		for range 3 {
			rec, err := s.Complete(t.Context(), end)
			assert.NoError(t, err, "Complete, %s", found)
			assert.Equal(t, rec.State, retrysafe.StateCompleted, "Complete, %s", found)
		}
		// Another call inserts the row after this call has seen that there is none.
		proxy := servers.StartSQLProxy(t, server.Port, servers.MySQLMessage)
		slow, _ := teststores.MySQL(t, server.At(proxy.Addr, found), nil)
		second := teststores.Request(found + " again")
		second.Owner = teststores.Owner("slow")
		release := proxy.Set(mysqlWrites, servers.LateRequest)
		late := make(chan storeapi.Acquired, 1)
		go func() {
			a, err := slow.Acquire(t.Context(), second)
			assert.NoError(t, err, "Acquire, %s", found)
			late <- a
		}()
		waits.Until(t.Context(), proxy.Asked)
		first := teststores.Request(found + " again")
		won, err := s.Acquire(t.Context(), first)
		assert.NoError(t, err, "Acquire, %s", found)
		assert.Equal(t, won.Status, storeapi.StatusAcquired, "the one that comes in between, %s", found)
		release()
		assert.Equal(t, (<-late).Status, storeapi.StatusInProgress, "the one that was first to look, %s", found)
		rec, err := s.Lookup(t.Context(), first.Key)
		assert.NoError(t, err, "Lookup")
		assert.Equal(t, rec.Owner, first.Owner, "whose record it is, %s", found)
	}
}

// TestMySQLOppositeOrder: if the server aborts a transaction of the store, because another one
// locks the same rows in the opposite order, the store runs it again.
func TestMySQLOppositeOrder(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	s, _ := teststores.MySQL(t, server.DSN(), nil)
	_, others := teststores.MySQL(t, server.DSN(), nil)
	victim := 0
	for n := 0; n < 20 && victim == 0; n++ {
		req := teststores.Request(fmt.Sprint("a", n))
		tx, err := others.BeginTx(t.Context(), nil)
		assert.NoError(t, err, "begin")
		sqltest.Exec(t, tx, `UPDATE retrysafe_records_meta SET version = version + 0, fence_floor = fence_floor + 1 WHERE id = 1`)
		_, err = s.Acquire(t.Context(), req)
		assert.NoError(t, err, "Acquire")
		sqltest.Exec(t, others, `UPDATE retrysafe_records SET state = 3, expires = 1 WHERE LOCATE(?, parts) > 0`, []byte(req.Key.ID))
		swept := make(chan error, 1)
		// It holds the record, and waits for the floor.
		go func() { _, err := s.Sweep(t.Context(), 10); swept <- err }()
		waits.Until(t.Context(), func() bool { return mysqlWaiting(t, others) == 1 })
		_, err = tx.ExecContext(t.Context(), `UPDATE retrysafe_records SET updated = updated + 1 WHERE LOCATE(?, parts) > 0`, []byte(req.Key.ID))
		if err != nil {
			assert.Equal(t, mysqlErrorNumber(err), uint16(1213), "the error: %v", err)
		} else {
			victim++
		}
		_ = tx.Rollback()
		assert.NoError(t, <-swept, "Sweep in the opposite order")
		rec, err := s.Lookup(t.Context(), req.Key)
		assert.NoError(t, err, "Lookup")
		assert.Equal(t, rec.State, retrysafe.State(0), "what is left")
	}
	assert.True(t, victim > 0, "the server has undone the store's transaction once")
}

func mysqlErrorNumber(err error) uint16 {
	if e, ok := err.(*mysql.MySQLError); ok { //nolint:errorlint // the driver's own error
		return e.Number
	}
	return 0
}

// TestMySQLClockReport: a record from the future is reported, once.
func TestMySQLClockReport(t *testing.T) {
	t.Parallel()
	var log teststores.Log
	server := servers.StartMySQL(t, "--innodb-flush-log-at-trx-commit=1")
	s, db := teststores.MySQL(t, server.DSN(), &sqlstore.Options{Logger: log.Logger()})
	_, err := s.Acquire(t.Context(), teststores.Request("a"))
	assert.NoError(t, err, "Acquire")
	sqltest.Exec(t, db, `UPDATE retrysafe_records SET updated = updated + 60000000, lease_end = lease_end + 60000000`)
	for range 2 {
		_, err = s.Lookup(t.Context(), teststores.Request("a").Key)
		assert.NoError(t, err, "Lookup")
	}
	assert.Equal(t, strings.Count(log.String(), "in the future of the server's clock"), 1, "reports: %s", &log)
}

// TestMySQLErrorsHideSecrets: errors contain neither the password nor a key.
func TestMySQLErrorsHideSecrets(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	s, db := teststores.MySQL(t, server.DSN("sql_mode=%27%27", "completion_type=1"), nil)
	var all bytes.Buffer
	secret := teststores.Request("secret-key")
	sqltest.Exec(t, db, `ALTER TABLE retrysafe_records ADD CONSTRAINT other CHECK (updated < 1)`)
	_, err := s.Acquire(t.Context(), secret)
	fmt.Fprintln(&all, err)
	sqltest.Exec(t, db, `ALTER TABLE retrysafe_records DROP CONSTRAINT other, MODIFY parts VARBINARY(3) NOT NULL`)
	_, err = s.Acquire(t.Context(), secret) // it would be cut, without strict mode
	fmt.Fprintln(&all, err)
	server.Kill()
	_, err = s.Acquire(t.Context(), secret)
	fmt.Fprintln(&all, err)
	locked := teststores.NewMySQL(t, teststores.OpenMySQL(t, strings.Replace(server.DSN(), "root@", "clerk:secret-word@", 1)), nil)
	fmt.Fprintln(&all, locked.Migrate(t.Context()))
	assert.Equal(t, strings.Count(all.String(), "sqlstore: "), 4, "errors: %s", &all)
	assert.True(t, !strings.Contains(all.String(), "secret"), "no secrets: %s", &all)
}

// TestMySQLFencesGrow: a key whose record was swept gets a greater fence, also if the clock was set
// back.
func TestMySQLFencesGrow(t *testing.T) {
	t.Parallel()
	s, db := teststores.MySQL(t, servers.StartMySQL(t).DSN(), nil)
	a, err := s.Acquire(t.Context(), teststores.Request("a"))
	assert.NoError(t, err, "Acquire")
	const future = 1 << 52 // no clock shows that
	sqltest.Exec(t, db, `UPDATE retrysafe_records SET fence = ?, expires = 1`, int64(future))
	n, err := s.Sweep(t.Context(), 10)
	assert.NoError(t, err, "Sweep")
	assert.Equal(t, n, 1, "swept")
	again := teststores.Request("a")
	again.Owner = teststores.Owner("again")
	b, err := s.Acquire(t.Context(), again)
	assert.NoError(t, err, "Acquire")
	assert.Equal(t, b.Record.Fence, retrysafe.Fence(future+1), "the next fence, after %d", a.Record.Fence)
}
