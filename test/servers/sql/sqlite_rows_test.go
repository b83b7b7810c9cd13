package sql_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestSQLiteRowOfVersion1: rows that version 1 has written mean the same for ever. The statement
// shows the form of such a file.
func TestSQLiteRowOfVersion1(t *testing.T) {
	t.Parallel()
	at := time.UnixMicro(1_800_000_000_000_000).UTC()
	s, db := teststores.OpenSQLite(t, sqltest.NewFile(t), &sqlstore.Options{Now: func() time.Time { return at }})
	digest := [sha256.Size]byte{31: 7}
	id := sha256.Sum256([]byte("shop/http/tenant%20%C3%BC/POST%20%2Forders/key%2F1"))
	sqltest.Exec(t, db, `INSERT INTO retrysafe_records (id, parts, state, owner, fence, lease_end, expires, updated, data, answer)
		VALUES (?, CAST(? AS BLOB), 3, CAST('0123456789abcdef' AS BLOB), 1799999999000001, 0, 1800000060000000, 1799999999500000, ?, x'00ff')`,
		id[:16], "\x04shop\x04http\x09tenant ü\x0cPOST /orders\x05key/1", slices.Concat(
			// re-execute, issued, digest; attempt
			[]byte{1, 1<<0 | 1<<1 | 1<<6, 2},
			// since it was created
			binary.AppendVarint(nil, 500_000),
			// not after, retention
			binary.AppendVarint(binary.AppendVarint(nil, 1_800_000_005_000_000), 60_500_000),
			[]byte("\x02\x01\xaa\x00\x05crash\x0ddial: refused\x00\x0cmessage/http"),
			binary.AppendVarint(nil, 2<<20), digest[:]))
	key := storeapi.StoreKey{
		Namespace: "shop", Layer: "http", Key: retrysafe.Key{Tenant: "tenant ü", Operation: "POST /orders", ID: "key/1"},
	}
	got, err := s.Lookup(t.Context(), key)
	assert.NoError(t, err, "Lookup")
	want := retrysafe.Record{
		Key: key, State: retrysafe.StateCompleted, Attempt: 2, Fence: 1799999999000001, Owner: storeapi.Owner([]byte("0123456789abcdef")),
		OnDoubt: retrysafe.Reexecute, Fingerprint: []byte{1, 0xaa}, Binding: []byte{}, Issued: true,
		Now: at, Created: at.Add(-time.Second), Updated: at.Add(-500 * time.Millisecond), Expires: at.Add(time.Minute),
		Answer: retrysafe.Answer{Codec: "message/http", Body: []byte{0, 0xff}, Size: 2 << 20, Digest: digest},
		Cause:  "crash", LastError: "dial: refused",
	}
	assert.Equal(t, got, want, "the record")
	page, err := s.List(t.Context(), storeapi.ListRequest{Tenant: "tenant ü"})
	assert.NoError(t, err, "List")
	want.Answer.Body = nil
	assert.Equal(t, page.Records, []retrysafe.Record{want}, "the record as it is listed")
}

// TestSQLiteWrittenRow: the columns of a record that this build writes.
func TestSQLiteWrittenRow(t *testing.T) {
	t.Parallel()
	at := time.UnixMicro(1_800_000_000_000_000).UTC()
	s, db := teststores.OpenSQLite(t, sqltest.NewFile(t), &sqlstore.Options{Now: func() time.Time { return at }})
	req := teststores.Request("a")
	req.Fingerprint, req.NotAfter = []byte{}, at.Add(time.Second)
	a, err := s.Acquire(t.Context(), req)
	assert.NoError(t, err, "Acquire")
	assert.Equal(t, sqltest.Count(t, db, `retrysafe_records WHERE hex(id) = '`+hexID(t, req.Key)+`'
		AND CAST(parts AS TEXT) = char(11) || 'integration' || char(2) || 'fn' || char(0) || char(6) || 'charge' || char(1) || 'a'
		AND state = 2 AND fence = 1800000000000000 AND CAST(owner AS TEXT) = '               a'
		AND lease_end = 1800000060000000 AND expires = 0 AND updated = 1800000000000000
		AND hex(data) = '`+hexData(1<<3|1<<5, 1_800_000_001_000_000, 3_600_000_000, "\x00\x00\x00\x00\x00\x00\x00")+`' AND answer IS NULL`), 1, "the row of an attempt")

	_, err = s.Complete(t.Context(), storeapi.CompleteRequest{
		Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence, State: retrysafe.StateFailed, Retention: time.Second,
		Answer: retrysafe.Answer{Codec: "failure", Body: []byte{}, Size: 7, Digest: [sha256.Size]byte{0xab}},
	})
	assert.NoError(t, err, "Complete")
	assert.Equal(t, sqltest.Count(t, db, `retrysafe_records WHERE state = 4 AND lease_end = 0 AND expires = 1800000001000000
		AND hex(data) = '`+hexData(1<<5|1<<6, 1_800_000_001_000_000, 1_000_000, "\x00\x00\x00\x00\x00\x07failure\x0e\xab"+strings.Repeat("\x00", 31))+`' AND answer = x''
		AND fence = 1800000000000000`), 1, "the row of a refusal")
}

// hexData returns the column data of a first attempt, which was created when it was updated.
func hexData(flags byte, notAfter, retention int64, rest string) string {
	data := []byte{1, flags, 1, 0}
	data = binary.AppendVarint(binary.AppendVarint(data, notAfter), retention)
	return fmt.Sprintf("%X%X", data, rest)
}

func hexID(t *testing.T, key storeapi.StoreKey) string {
	t.Helper()
	text, err := key.MarshalText()
	assert.NoError(t, err, "the text of the key")
	id := sha256.Sum256(text)
	return fmt.Sprintf("%X", id[:16])
}

// TestSQLiteDamagedRow: the store decides nothing on a row that no store has written.
func TestSQLiteDamagedRow(t *testing.T) {
	t.Parallel()
	s, db := teststores.OpenSQLite(t, sqltest.NewFile(t), nil)
	req := teststores.Request("a")
	_, err := s.Acquire(t.Context(), req)
	assert.NoError(t, err, "Acquire")
	sqltest.Exec(t, db, "UPDATE retrysafe_records SET data = substr(data, 1, 5)")
	_, err = s.Acquire(t.Context(), req)
	assert.True(t, err != nil, "a damaged row is an error")
	assert.Contains(t, err.Error(), "the record is damaged", "the error")
}

// TestSQLiteFencesGrow: through sweeps, new records and a clock that was set back by a day.
func TestSQLiteFencesGrow(t *testing.T) {
	t.Parallel()
	clock, path := storetest.NewClock(), sqltest.NewFile(t)
	s, _ := teststores.OpenSQLite(t, path, &sqlstore.Options{Now: clock.Now})
	req := teststores.Request("a")
	req.Retention = time.Minute
	var last retrysafe.Fence
	win := func(s *sqlstore.Store, req storeapi.AcquireRequest) {
		t.Helper()
		a, err := s.Acquire(t.Context(), req)
		assert.NoError(t, err, "Acquire")
		assert.Equal(t, a.Status, storeapi.StatusAcquired, "status")
		assert.True(t, a.Record.Fence > last, "the fence grows: %d after %d", a.Record.Fence, last)
		last = a.Record.Fence
		_, err = s.Complete(t.Context(), storeapi.CompleteRequest{
			Key: req.Key, Owner: req.Owner, Fence: last, State: retrysafe.StateCompleted, Retention: time.Minute,
		})
		assert.NoError(t, err, "Complete")
	}
	sweep := func(want int) {
		t.Helper()
		clock.Advance(time.Hour)
		n, err := s.Sweep(t.Context(), 1000)
		assert.NoError(t, err, "Sweep")
		assert.Equal(t, n, want, "records that were swept")
	}
	win(s, req)
	sweep(1)
	clock.Advance(-24 * time.Hour)
	win(s, req) // a new record of the key
	sweep(1)
	status, err := s.Issue(t.Context(), storeapi.IssueRequest{Key: req.Key, Owner: teststores.Owner("issuer"), Retention: time.Hour})
	assert.NoError(t, err, "Issue")
	assert.Equal(t, status, storeapi.StatusAcquired, "status of Issue")
	req.MustBeIssued = true
	win(s, req) // of a key that was issued again
	sweep(1)
	again, _ := teststores.OpenSQLite(t, path, &sqlstore.Options{Now: func() time.Time { return time.UnixMicro(1) }})
	req.MustBeIssued = false
	win(again, req) // as seen by a process whose clock was never set
}

// TestSQLiteSweepInBatches: a sweep of more than one transaction.
func TestSQLiteSweepInBatches(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	s, db := teststores.OpenSQLite(t, sqltest.NewFile(t), &sqlstore.Options{Now: clock.Now})
	sqltest.Exec(t, db, `WITH RECURSIVE numbers(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM numbers WHERE value < 300)
		INSERT INTO retrysafe_records SELECT randomblob(16), randomblob(8), 3, zeroblob(16), value, 0, 1, 1, x'01', x'00' FROM numbers`)
	_, err := s.Acquire(t.Context(), teststores.Request("live"))
	assert.NoError(t, err, "Acquire")
	for _, want := range []int{200, 100, 0} {
		n, err := s.Sweep(t.Context(), 200)
		assert.NoError(t, err, "Sweep")
		assert.Equal(t, n, want, "records that were swept")
	}
	assert.Equal(t, sqltest.Count(t, db, "retrysafe_records"), 1, "records that are left")
	assert.Equal(t, sqltest.Count(t, db, "retrysafe_records_meta WHERE fence_floor = 300"), 1, "the largest fence is kept")
}

// TestSQLiteSweepMeetsTraffic: a record that becomes live again between the check and the removal
// stays.
func TestSQLiteSweepMeetsTraffic(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	db, set := sqltest.OpenFaulty(t, sqltest.SQLiteDSN(sqltest.NewFile(t)))
	s := teststores.SQLite(t, db, &sqlstore.Options{Now: clock.Now})
	for _, id := range []string{"a", "b"} {
		_, err := s.Issue(t.Context(), storeapi.IssueRequest{Key: teststores.Request(id).Key, Owner: teststores.Owner(id), Retention: time.Second})
		assert.NoError(t, err, "Issue")
	}
	clock.Advance(time.Minute)
	set(func(step string, run func() error) error {
		if step == "BEGIN IMMEDIATE" {
			set(nil)
			other := teststores.NewSQLite(t, db, &sqlstore.Options{Now: clock.Now})
			a, err := other.Acquire(t.Context(), teststores.Request("a"))
			if err != nil || a.Status != storeapi.StatusAcquired {
				t.Errorf("Acquire of an expired key: %v %v", a.Status, err)
			}
		}
		return run()
	})
	n, err := s.Sweep(t.Context(), 10)
	assert.NoError(t, err, "Sweep")
	assert.Equal(t, n, 1, "records that were swept")
	rec, err := s.Lookup(t.Context(), teststores.Request("a").Key)
	assert.NoError(t, err, "Lookup")
	assert.Equal(t, rec.State, retrysafe.StateInProgress, "state of the key that came to life again")
}

// TestSQLitePlans: no page of a listing and no sweep reads the whole table or sorts it.
func TestSQLitePlans(t *testing.T) {
	t.Parallel()
	db, set := sqltest.OpenFaulty(t, sqltest.SQLiteDSN(sqltest.NewFile(t)))
	s := teststores.SQLite(t, db, &sqlstore.Options{Listing: true})
	var query string
	set(func(step string, run func() error) error {
		if strings.Contains(step, "ORDER BY") {
			query = step
		}
		return run()
	})
	plan := func(call func() error, index string) {
		t.Helper()
		assert.NoError(t, call(), "the call")
		rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+strings.ReplaceAll(query, "?", "x'00'"))
		assert.NoError(t, err, "the plan of %s", query)
		defer rows.Close()
		var steps []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			assert.NoError(t, rows.Scan(&id, &parent, &unused, &detail), "scan")
			steps = append(steps, detail)
		}
		assert.NoError(t, rows.Err(), "the plan")
		assert.True(t, len(steps) == 1 && strings.Contains(steps[0], "SEARCH") && strings.Contains(steps[0], index),
			"want one search by %s, got %q for %s", index, steps, query)
	}
	list := func(req storeapi.ListRequest) func() error {
		return func() error { _, err := s.List(t.Context(), req); return err }
	}
	const primary = "sqlite_autoindex_retrysafe_records_1"
	plan(list(storeapi.ListRequest{}), primary)
	plan(list(storeapi.ListRequest{Namespace: "app", Operation: "charge", State: retrysafe.StateFailed}), primary)
	plan(list(storeapi.ListRequest{Namespace: "app", Layer: "fn", Tenant: "t", Operation: "charge"}), "retrysafe_records_listing")
	plan(list(storeapi.ListRequest{Namespace: "app", Layer: "fn", Tenant: "t", Operation: "charge", InDoubt: true}), "retrysafe_records_unfinished")
	plan(func() error { _, err := s.Sweep(t.Context(), 1); return err }, "retrysafe_records_expires")
}
