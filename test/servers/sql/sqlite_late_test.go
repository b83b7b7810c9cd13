package sql_test

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestSQLiteCommitComesInTime: without WAL a reader holds up the COMMIT of a claim. A claim that is
// held up past its NotAfter is not committed.
func TestSQLiteCommitComesInTime(t *testing.T) {
	t.Parallel()
	db := sqltest.Open(t, "sqlite", "file:"+sqltest.NewFile(t)+"?_pragma=journal_mode(DELETE)&_pragma=synchronous(OFF)")
	s := teststores.SQLite(t, db, &sqlstore.Options{LockWait: time.Minute})
	reader, err := db.Conn(t.Context())
	assert.NoError(t, err, "a connection")
	defer func() { _ = reader.Close() }()
	exec := func(statement string) {
		t.Helper()
		_, err := reader.ExecContext(t.Context(), statement)
		assert.NoError(t, err, "%s", statement)
	}
	exec("BEGIN")
	var n int
	assert.NoError(t, reader.QueryRowContext(t.Context(), "SELECT count(*) FROM retrysafe_records").Scan(&n), "read")
	key := storeapi.StoreKey{Namespace: "n", Layer: "fn", Key: retrysafe.Key{Operation: "o", ID: "k"}}
	before := time.Now()
	freed := time.AfterFunc(3*time.Second, func() { _, _ = reader.ExecContext(t.Context(), "ROLLBACK") })
	defer freed.Stop()
	got, err := s.Acquire(t.Context(), storeapi.AcquireRequest{
		Key: key, Owner: storeapi.Owner{1}, Lease: time.Minute, Retention: time.Hour, NotAfter: before.Add(500 * time.Millisecond),
	})
	assert.True(t, err != nil, "the claim that is held up: %+v", got)
	<-time.After(4 * time.Second)
	rec, err := s.Lookup(t.Context(), key)
	assert.NoError(t, err, "Lookup")
	assert.True(t, rec.State == 0, "the claim was committed %v after it was sent: %+v", rec.Updated.Sub(before), rec)
}
