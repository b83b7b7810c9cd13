package sql_test

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestSQLListing: the pages of a tenant have each of its records once, with the index of keys and
// without. With the index they are in the order of the keys.
func TestSQLListing(t *testing.T) {
	t.Parallel()
	shops.Each(t, func(t *testing.T, a, _ *shops.Shop) {
		t.Helper()
		table := teststores.NewTable()
		for _, indexed := range []bool{false, true} {
			s, err := sqlstore.New(a.DB, a.Store.Dialect(), &sqlstore.Options{Table: table, Listing: indexed})
			assert.NoError(t, err, "New")
			for range 2 { // the second time there is an index
				assert.NoError(t, s.Migrate(t.Context()), "Migrate")
			}
			if !indexed {
				makeListed(t, s)
			}
			checkListing(t, s, indexed, storeapi.ListRequest{Namespace: "app", Layer: "fn", Tenant: "tenant 1"}, 40)
			checkListing(t, s, indexed, storeapi.ListRequest{Namespace: "app", Layer: "fn", Tenant: "tenant 1", Operation: "pay"}, 20)
			checkListing(t, s, false, storeapi.ListRequest{Tenant: "tenant 1", Operation: "pay"}, 20)
			// the name of another part
			checkListing(t, s, false, storeapi.ListRequest{Operation: "tenant 1"}, 0)
			checkListing(t, s, false, storeapi.ListRequest{Namespace: "app", Layer: "fn", Tenant: "tenant"}, 0)
			_, err = s.List(t.Context(), storeapi.ListRequest{Namespace: "app", Layer: "fn", Tenant: "tenant 2", After: "parts:00"})
			assert.Contains(t, fmt.Sprint(err), "After is not what this store has returned", "the page after one of another request")
		}
		wantListingIndex(t, a.DB, a.Store.Dialect(), table)
	})
}

func makeListed(t *testing.T, s *sqlstore.Store) {
	t.Helper()
	for i := range 120 {
		req := teststores.Request(fmt.Sprintf("%03d", i/6))
		req.Key.Namespace, req.Key.Tenant = "app", fmt.Sprint("tenant ", i%3)
		req.Key.Operation = []string{"pay", "refund"}[i/3%2]
		_, err := s.Acquire(t.Context(), req)
		assert.NoError(t, err, "Acquire")
	}
}

func checkListing(t *testing.T, s *sqlstore.Store, inOrder bool, req storeapi.ListRequest, want int) {
	t.Helper()
	var got []string
	for req.Limit = 7; ; {
		page, err := s.List(t.Context(), req)
		assert.NoError(t, err, "List")
		assert.True(t, len(page.Records) <= req.Limit, "a page has at most %d records, got %d", req.Limit, len(page.Records))
		for _, r := range page.Records {
			assert.True(t, (req.Tenant == "" || r.Key.Tenant == req.Tenant) && (req.Operation == "" || r.Key.Operation == req.Operation), "it is selected: %+v", r.Key)
			got = append(got, r.Key.Operation+" "+r.Key.ID)
		}
		if req.After = page.Next; page.Next == "" {
			break
		}
	}
	assert.True(t, !inOrder || slices.IsSorted(got), "in the order of the keys: %v", got)
	slices.Sort(got)
	assert.Equal(t, len(slices.Compact(got)), want, "records of %+v", req)
}

// wantListingIndex checks that the server can use the index that Migrate has created.
func wantListingIndex(t *testing.T, db *sql.DB, d sqlstore.Dialect, table string) {
	t.Helper()
	query := map[sqlstore.Dialect]string{
		sqlstore.SQLite:     `SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND name = '` + table + `_listing'`,
		sqlstore.PostgreSQL: `SELECT count(*) FROM pg_indexes WHERE indexname = '` + table + `_listing' AND indexdef LIKE '%(parts)'`,
		sqlstore.MySQL: `SELECT count(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = '` + table + `'
			AND index_name = 'listing' AND column_name = 'parts' AND sub_part IS NULL`,
	}[d]
	var n int
	assert.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&n), "look for the index")
	assert.Equal(t, n, 1, "indexes of keys")
}

// TestSQLListingSkips: a full page after whose records others were skipped is followed by
// another one.
// Only some records of a listing by progress are selected after they were read.
func TestSQLListingSkips(t *testing.T) {
	t.Parallel()
	s, _ := teststores.OpenSQLite(t, sqltest.NewFile(t), &sqlstore.Options{Listing: true})
	for i := range 6 {
		req := teststores.Request(fmt.Sprint(i))
		req.Key.Namespace, req.Key.Tenant = "app", "tenant"
		a, err := s.Acquire(t.Context(), req)
		assert.NoError(t, err, "Acquire")
		if i%2 == 1 {
			continue
		}
		err = s.Extend(t.Context(), storeapi.ExtendRequest{
			Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence, Lease: req.Lease,
			Progress: &retrysafe.Answer{Codec: "json", Body: []byte("1"), Size: 1},
		})
		assert.NoError(t, err, "Extend with progress")
	}
	var got []string
	req := storeapi.ListRequest{Namespace: "app", Layer: "fn", Tenant: "tenant", Progress: true, Limit: 1}
	for {
		page, err := s.List(t.Context(), req)
		assert.NoError(t, err, "List")
		for _, r := range page.Records {
			got = append(got, r.Key.ID)
		}
		if req.After = page.Next; page.Next == "" {
			break
		}
	}
	assert.Equal(t, got, []string{"0", "2", "4"}, "records with progress")
}

// TestSQLListingScans: a page says whether an index serves the request.
func TestSQLListingScans(t *testing.T) {
	t.Parallel()
	tenant := storeapi.ListRequest{Namespace: "app", Layer: "fn", Tenant: "tenant"}
	for _, listing := range []bool{false, true} {
		s, _ := teststores.OpenSQLite(t, sqltest.NewFile(t), &sqlstore.Options{Listing: listing})
		for req, want := range map[storeapi.ListRequest]bool{
			{}:                                   true,
			{State: storeapi.StateCompleted}:     true,
			{InDoubt: true, Tenant: "tenant"}:    false,
			{State: storeapi.StateInProgress}:    false,
			{State: storeapi.StateReleased}:      false,
			{Progress: true}:                     false,
			{Namespace: "app", Tenant: "tenant"}: true,
			tenant:                               !listing,
		} {
			page, err := s.List(t.Context(), req)
			assert.NoError(t, err, "List")
			assert.Equal(t, page.Scans, want, "%+v scans (Listing %v)", req, listing)
		}
	}
}

// TestSQLListingInParts: a listing that has to read all records returns after some thousands of
// them, and says how many it has read. So a caller can show how far it is, and no statement reads
// the whole table.
func TestSQLListingInParts(t *testing.T) {
	t.Parallel()
	const crowd = 22_000
	shops.EachKind(t, func(t *testing.T, a, _ *shops.Shop) {
		t.Helper()
		table := teststores.NewTable()
		s, err := sqlstore.New(a.DB, a.Store.Dialect(), &sqlstore.Options{Table: table, Listing: true})
		assert.NoError(t, err, "New")
		assert.NoError(t, s.Migrate(t.Context()), "Migrate")
		for _, tenant := range []string{"crowd", "rare"} {
			req := teststores.Request("the first")
			req.Key.Namespace, req.Key.Tenant = "app", tenant
			got, err := s.Acquire(t.Context(), req)
			assert.NoError(t, err, "Acquire")
			_, err = s.Complete(t.Context(), storeapi.CompleteRequest{
				Key: req.Key, Owner: req.Owner, Fence: got.Record.Fence, State: storeapi.StateCompleted, Retention: 24 * time.Hour,
			})
			assert.NoError(t, err, "Complete")
		}
		copyRecords(t, a, table, crowd)
		inParts(t, s, storeapi.ListRequest{Namespace: "app", Tenant: "rare"}, 1, crowd+2)
		inParts(t, s, storeapi.ListRequest{State: storeapi.StateFailed}, 0, crowd+2)
		inParts(t, s, storeapi.ListRequest{Namespace: "app", Layer: "fn", Tenant: "crowd", State: storeapi.StateFailed}, 0, crowd+1)
		page, err := s.List(t.Context(), storeapi.ListRequest{Namespace: "app", Layer: "fn", Tenant: "rare"})
		assert.NoError(t, err, "List")
		assert.Equal(t, page.Read, 1, "records that were read of a tenant by the index")
	})
}

// copyRecords copies a record of the tenant crowd n times.
func copyRecords(t *testing.T, a *shops.Shop, table string, n int) {
	t.Helper()
	number := func(q string) string { return q }
	if a.Store.Dialect() == sqlstore.PostgreSQL {
		number = sqlkit.Numbered
	}
	// what Lookup and List need not tell apart may be alike
	var id, parts []byte
	err := a.DB.QueryRowContext(t.Context(), number("SELECT id, parts FROM "+table+" ORDER BY fence LIMIT 1")).Scan(&id, &parts)
	assert.NoError(t, err, "the first record")
	tx, err := a.DB.BeginTx(t.Context(), nil)
	assert.NoError(t, err, "begin")
	defer tx.Rollback() // if it was not committed
	in, err := tx.PrepareContext(t.Context(), number("INSERT INTO "+table+" (id, parts, owner, fence, state, lease_end, expires, updated, data)"+
		" SELECT ?, ?, owner, fence, state, lease_end, expires, updated, data FROM "+table+" WHERE id = ?"))
	assert.NoError(t, err, "prepare")
	defer in.Close()
	for i := range n {
		sum := sha256.Sum256(fmt.Append(nil, i))
		_, err := in.ExecContext(t.Context(), sum[:16], fmt.Appendf(bytes.Clone(parts[:len(parts)-9]), "%09d", i), id)
		assert.NoError(t, err, "copy")
	}
	assert.NoError(t, tx.Commit(), "commit")
}

// inParts checks that pages of a listing have so many records, and together read so many, of which
// no page has read all.
func inParts(t *testing.T, s *sqlstore.Store, req storeapi.ListRequest, records, read int) {
	t.Helper()
	pages := 0
	for {
		page, err := s.List(t.Context(), req)
		assert.NoError(t, err, "List")
		assert.True(t, page.Read <= 21_000, "a page has read %d records", page.Read)
		pages++
		records, read, req.After = records-len(page.Records), read-page.Read, page.Next
		if req.After == "" {
			break
		}
	}
	assert.Equal(t, []int{pages, records, read}, []int{2, 0, 0}, "pages, missing records, and records that were not read, of %+v", req)
}
