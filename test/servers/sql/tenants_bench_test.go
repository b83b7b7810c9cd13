package sql_test

import (
	"fmt"
	"log/slog"
	mrand "math/rand/v2"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
)

// BenchmarkTenants fills a table with as many completed records as the benchmark's number
// (-benchtime 10000000x), a thousand for each tenant, and lists those of one tenant without the
// index of [sqlstore.Options].Listing and with it.
func BenchmarkTenants(b *testing.B) {
	if b.N == 1 {
		return // the trial run of the package testing
	}
	b.ReportMetric(0, "ns/op")
	s := servers.StartPostgres(b, "-c", "shared_buffers=128MB", "-c", "max_wal_size=4GB")
	db := sqltest.Open(b, "pgx", s.URL())
	m := &manyRecords{dialect: sqlstore.PostgreSQL, db: db, filling: db, tenants: max(1, b.N/1000)}
	m.store = m.openStore(b, sqlstore.DefaultTable)
	m.copyRecord(b, b.N)
	_, err := db.ExecContext(b.Context(), "VACUUM ANALYZE retrysafe_records")
	assert.NoError(b, err, "vacuum")
	b.ReportMetric(m.listTenant(b, m.store, 1, 1000).Seconds(), "s-tenant-by-scan")

	indexed, err := sqlstore.New(db, m.dialect, &sqlstore.Options{Listing: true, Logger: slog.New(slog.DiscardHandler), LockWait: time.Minute})
	assert.NoError(b, err, "a store")
	begun := time.Now()
	assert.NoError(b, indexed.Migrate(b.Context()), "Migrate")
	b.ReportMetric(time.Since(begun).Seconds(), "s-create-index")
	var size int64
	assert.NoError(b, db.QueryRowContext(b.Context(), "SELECT pg_relation_size('retrysafe_records_listing')").Scan(&size), "size of the index")
	b.ReportMetric(float64(size)/float64(b.N), "bytes/record-index")
	b.ReportMetric(m.medianPage(b, indexed, nil)/1000, "ms-page-tenant")
	b.ReportMetric(m.medianPage(b, indexed, func(r *storeapi.ListRequest) { r.State = storeapi.StateInProgress })/1000, "ms-page-tenant-unfinished")
	b.ReportMetric(float64(m.listTenant(b, indexed, 20, 1000).Microseconds())/1000, "ms-tenant-whole")
}

// medianPage returns the median time of the first page of a tenant in microseconds.
func (m *manyRecords) medianPage(b *testing.B, s *sqlstore.Store, how func(*storeapi.ListRequest)) float64 {
	b.Helper()
	return medianTime(b, 100, func(int) error {
		req := storeapi.ListRequest{Namespace: "many", Layer: "fn", Tenant: fmt.Sprint("tenant ", mrand.IntN(m.tenants)), Limit: 100}
		want := 100
		if how != nil {
			how(&req)
			want = 0
		}
		page, err := s.List(b.Context(), req)
		if err == nil && (len(page.Records) != want || page.Scans) {
			err = fmt.Errorf("a page of %d records; it scans: %v", len(page.Records), page.Scans)
		}
		return err
	})
}

// listTenant lists all records of random tenants, and returns the time of one.
func (m *manyRecords) listTenant(b *testing.B, s *sqlstore.Store, times, want int) time.Duration {
	b.Helper()
	begun, pages, longest := time.Now(), 0, time.Duration(0)
	for range times {
		req, n := storeapi.ListRequest{Namespace: "many", Layer: "fn", Tenant: fmt.Sprint("tenant ", mrand.IntN(m.tenants)), Limit: 100}, 0
		for {
			began := time.Now()
			page, err := s.List(b.Context(), req)
			assert.NoError(b, err, "List")
			longest = max(longest, time.Since(began))
			pages, n, req.After = pages+1, n+len(page.Records), page.Next
			if req.After == "" {
				break
			}
		}
		assert.True(b, n == want, "records of a tenant: %d", n)
	}
	b.Logf("%d pages a tenant, of which the longest took %v", pages/times, longest.Round(time.Millisecond/10))
	return time.Since(begun) / time.Duration(times)
}
