package sql_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"
	"log/slog"
	mrand "math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
)

// BenchmarkManyRecords fills a table with as many completed records as the benchmark's number
// (-benchtime 10000000x), and compares it with an empty table of the same database, in turn. Ten
// million take about 10 GB of disk.
func BenchmarkManyRecords(b *testing.B) {
	eachDatabase(b, measureMany)
}

// eachDatabase runs a benchmark on each database, durable. SQLite and PostgreSQL have the system's
// cache of their files besides their own; MariaDB has 4 GB.
func eachDatabase(b *testing.B, f func(*testing.B, *manyRecords)) {
	b.Helper()
	b.Run("SQLite", func(b *testing.B) {
		path := b.TempDir() + "/many.db"
		fast := sqltest.Open(b, "sqlite", sqltest.SQLiteDSN(path, "cache_size(-1000000)", "synchronous(OFF)"))
		f(b, &manyRecords{
			dialect: sqlstore.SQLite, db: sqltest.Open(b, "sqlite", sqltest.SQLiteDSN(path)), filling: fast,
			size:  "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
			after: []string{"PRAGMA wal_checkpoint(TRUNCATE)"},
		})
	})
	b.Run("PostgreSQL", func(b *testing.B) {
		s := servers.StartPostgres(b, "-c", "fsync=on", "-c", "full_page_writes=on", "-c", "synchronous_commit=on", "-c", "shared_buffers=128MB", "-c", "max_wal_size=4GB")
		db := sqltest.Open(b, "pgx", s.URL())
		f(b, &manyRecords{
			dialect: sqlstore.PostgreSQL, db: db, filling: db,
			size:    "SELECT pg_total_relation_size('retrysafe_records')",
			indexes: "SELECT indexrelname, pg_relation_size(indexrelid) FROM pg_stat_user_indexes WHERE relname = 'retrysafe_records' ORDER BY 1",
			after:   []string{"VACUUM ANALYZE retrysafe_records", "CHECKPOINT"},
		})
	})
	b.Run("MariaDB", func(b *testing.B) {
		s := servers.StartMySQL(b, "--innodb-flush-log-at-trx-commit=1", "--innodb-flush-method=fsync", "--innodb-buffer-pool-size=4G", "--innodb-log-file-size=1G")
		db := sqltest.Open(b, "mysql", s.DSN())
		f(b, &manyRecords{
			dialect: sqlstore.MySQL, db: db, filling: db,
			size:  "SELECT data_length + index_length FROM information_schema.tables WHERE table_schema = database() AND table_name = 'retrysafe_records'",
			after: []string{"ANALYZE TABLE retrysafe_records"},
		})
	})
}

// manyRecords is a database that is filled.
type manyRecords struct {
	dialect       sqlstore.Dialect
	db, filling   *sql.DB
	size, indexes string
	after         []string // statements after the filling
	tenants       int      // among whom the records are; 0: one
	store         *sqlstore.Store
}

func measureMany(b *testing.B, m *manyRecords) {
	b.Helper()
	if b.N == 1 {
		return // the trial run of the package testing
	}
	b.ReportMetric(0, "ns/op")
	m.fillTable(b)
	m.logIndexes(b)
	m.compareTables(b)
	m.measureList(b)
	m.measureSweep(b, b.N/100)
}

// fillTable opens the store and fills its table.
func (m *manyRecords) fillTable(b *testing.B) {
	b.Helper()
	m.db.SetMaxOpenConns(16)
	m.store = m.openStore(b, sqlstore.DefaultTable)
	empty := m.tableBytes(b)
	begun := time.Now()
	m.copyRecord(b, b.N)
	for _, q := range m.after {
		_, err := m.filling.ExecContext(b.Context(), q)
		assert.NoError(b, err, "%s", q)
	}
	b.Logf("filled in %v", time.Since(begun).Round(time.Second))
	b.ReportMetric((m.tableBytes(b)-empty)/float64(b.N), "bytes/record")
}

// openStore returns a store on a table.
func (m *manyRecords) openStore(b *testing.B, table string) *sqlstore.Store {
	b.Helper()
	s, err := sqlstore.New(m.db, m.dialect, &sqlstore.Options{Table: table, Logger: slog.New(slog.DiscardHandler), LockWait: time.Minute})
	assert.NoError(b, err, "a store")
	assert.NoError(b, s.Migrate(b.Context()), "Migrate")
	return s
}

func (m *manyRecords) tableBytes(b *testing.B) (n float64) {
	b.Helper()
	assert.NoError(b, m.db.QueryRowContext(b.Context(), m.size).Scan(&n), "the size")
	return n
}

func (m *manyRecords) logIndexes(b *testing.B) {
	b.Helper()
	if m.indexes == "" {
		return
	}
	rows, err := m.db.QueryContext(b.Context(), m.indexes)
	assert.NoError(b, err, "the indexes")
	defer rows.Close()
	for rows.Next() {
		var name string
		var size int64
		assert.NoError(b, rows.Scan(&name, &size), "an index")
		b.Logf("%s: %d MB", name, size>>20)
	}
	assert.NoError(b, rows.Err(), "the indexes")
}

// compareTables measures the calls of 64 callers and of one on an empty table and on the full one,
// in turn, and reports the medians of the rounds.
func (m *manyRecords) compareTables(b *testing.B) {
	b.Helper()
	measured := map[string][]float64{}
	keep := func(v float64, name string) { measured[name] = append(measured[name], v) }
	empty := m.openStore(b, "empty_records")
	const rounds = 5
	for round := range rounds {
		for when, s := range map[string]*sqlstore.Store{"empty": empty, "full": m.store} {
			g := &grouped{store: s, space: fmt.Sprint(when, round)}
			keep(g.measureRate(b, 30_000, g.complete), when+"-keys/s")
			keep(g.measureRate(b, 30_000, g.replay), when+"-replays/s")
			one := &grouped{store: s, space: fmt.Sprint(when, " one ", round)}
			keep(medianTime(b, 500, func(i int) error { return one.complete(b.Context(), i) }), when+"-µs-complete")
			keep(medianTime(b, 500, func(i int) error { return one.replay(b.Context(), i) }), when+"-µs-replay")
		}
		keep(medianTime(b, 500, func(int) error {
			rec, err := m.store.Lookup(b.Context(), m.key(mrand.IntN(b.N)))
			if err == nil && rec.State != storeapi.StateCompleted {
				err = fmt.Errorf("a record that was filled in is %v", rec.State)
			}
			return err
		}), "full-µs-lookup")
	}
	for name, all := range measured {
		slices.Sort(all)
		b.ReportMetric(all[rounds/2], name)
	}
}

// medianTime returns the median time of a call in microseconds.
func medianTime(b *testing.B, n int, call func(i int) error) float64 {
	b.Helper()
	all := make([]time.Duration, n)
	for i := range all {
		begun := time.Now()
		assert.NoError(b, call(i), "a call")
		all[i] = time.Since(begun)
	}
	slices.Sort(all)
	return float64(all[n/2].Nanoseconds()) / 1000
}

func (m *manyRecords) key(i int) storeapi.StoreKey {
	tenant := "bench"
	if m.tenants > 0 {
		tenant = fmt.Sprint("tenant ", i%m.tenants)
	}
	return storeapi.StoreKey{Namespace: "many", Layer: "fn", Key: storeapi.Key{Tenant: tenant, Operation: "bench", ID: fmt.Sprintf("order-%08d", i)}}
}

// manyID and manyParts return the columns that differ between the records that are filled in, as
// docs/formats.md has them.
func manyID(key storeapi.StoreKey) []byte {
	text, _ := key.AppendText(nil) // never fails
	sum := sha256.Sum256(text)
	return sum[:16]
}

func manyParts(k storeapi.StoreKey) (parts []byte) {
	for _, part := range []string{k.Namespace, k.Layer, k.Tenant, k.Operation, k.ID} {
		parts = append(binary.AppendUvarint(parts, uint64(len(part))), part...)
	}
	return parts
}

// copyRecord copies a record that the store has made.
func (m *manyRecords) copyRecord(b *testing.B, n int) {
	b.Helper()
	const columns = "owner, fence, state, lease_end, expires, updated, data, answer"
	template := (&grouped{store: m.store, space: "template"}).complete(b.Context(), 1)
	assert.NoError(b, template, "a record")
	var owner, data, answer []byte
	var fence, state, lease, expires, updated int64
	err := m.filling.QueryRowContext(b.Context(), "SELECT "+columns+" FROM retrysafe_records ORDER BY updated DESC LIMIT 1").
		Scan(&owner, &fence, &state, &lease, &expires, &updated, &data, &answer)
	assert.NoError(b, err, "its row")
	expires += time.Hour.Microseconds() * 24
	f := &filler{
		m: m, insert: "INSERT INTO retrysafe_records (id, parts, " + columns + ") ",
		same: []any{fence, state, lease, expires, updated, data, answer},
	}
	for some := range slices.Chunk(m.order(n), 20_000) {
		f.fillSome(b, some)
	}
}

// order returns the numbers of the records in the order in which they are filled in. The table of
// MariaDB is its primary key: in another order than its own it takes hours.
func (m *manyRecords) order(n int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	if m.dialect == sqlstore.MySQL {
		ids := make([][16]byte, n)
		for i := range ids {
			ids[i] = [16]byte(manyID(m.key(i)))
		}
		slices.SortFunc(all, func(x, y int32) int { return bytes.Compare(ids[x][:], ids[y][:]) })
	}
	return all
}

// filler inserts records that differ in their keys and owners.
type filler struct {
	m      *manyRecords
	insert string
	same   []any // the other columns
}

// fillSome inserts records in one transaction.
func (f *filler) fillSome(b *testing.B, numbers []int32) {
	b.Helper()
	var ids, parts, owners [][]byte
	for _, i := range numbers {
		owner := make([]byte, 16)
		_, _ = rand.Read(owner)
		key := f.m.key(int(i))
		ids, parts, owners = append(ids, manyID(key)), append(parts, manyParts(key)), append(owners, owner)
	}
	tx, err := f.m.filling.BeginTx(b.Context(), nil)
	assert.NoError(b, err, "begin")
	defer tx.Rollback() // if it was not committed
	if f.m.dialect == sqlstore.PostgreSQL {
		_, err := tx.ExecContext(b.Context(), f.insert+"SELECT i, p, o, $4, $5, $6, $7, $8, $9, $10 FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) AS v (i, p, o)",
			append([]any{ids, parts, owners}, f.same...)...)
		assert.NoError(b, err, "fill")
	} else {
		const rows = 100
		for from := 0; from < len(ids); from += rows {
			to := min(from+rows, len(ids))
			var args []any
			for i := from; i < to; i++ {
				args = append(append(args, ids[i], parts[i], owners[i]), f.same...)
			}
			_, err := tx.ExecContext(b.Context(), f.insert+"VALUES "+strings.Repeat("(?, ?, ?, ?, ?, ?, ?, ?, ?, ?), ", to-from-1)+"(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", args...)
			assert.NoError(b, err, "fill")
		}
	}
	assert.NoError(b, tx.Commit(), "commit")
}

// measureList measures the first page of a thousand records that are unfinished among all.
func (m *manyRecords) measureList(b *testing.B) {
	b.Helper()
	g := &grouped{store: m.store, space: "unfinished"}
	b.Logf("began %.0f keys a second that stay unfinished", g.measureRate(b, 1000, func(ctx context.Context, i int) error {
		_, err := g.acquire(ctx, i)
		return err
	}))
	b.ReportMetric(medianTime(b, 20, func(int) error {
		page, err := m.store.List(b.Context(), storeapi.ListRequest{State: storeapi.StateInProgress, Limit: 100})
		if err == nil && len(page.Records) != 100 {
			err = fmt.Errorf("a page of %d", len(page.Records))
		}
		return err
	})/1000, "ms-page-unfinished")
	b.ReportMetric(medianTime(b, 20, func(int) error {
		_, err := m.store.List(b.Context(), storeapi.ListRequest{InDoubt: true, Limit: 100})
		return err
	})/1000, "ms-page-in-doubt")
}

// measureSweep lets n records in random places expire, and measures how fast they are removed.
func (m *manyRecords) measureSweep(b *testing.B, n int) {
	b.Helper()
	m.expireSome(b, 0, n)
	begun := time.Now()
	m.sweepSome(b, n)
	b.ReportMetric(float64(n)/time.Since(begun).Seconds(), "swept/s")
}

// expireSome lets the records with these numbers expire, which are in random places.
func (m *manyRecords) expireSome(b *testing.B, from, to int) {
	b.Helper()
	tx, err := m.filling.BeginTx(b.Context(), nil)
	assert.NoError(b, err, "begin")
	defer tx.Rollback() // if it was not committed
	update := "UPDATE retrysafe_records SET expires = ? WHERE id = ?"
	if m.dialect == sqlstore.PostgreSQL {
		update = "UPDATE retrysafe_records SET expires = $1 WHERE id = $2"
	}
	in, err := tx.PrepareContext(b.Context(), update)
	assert.NoError(b, err, "prepare")
	defer in.Close()
	for i := from; i < to; i++ {
		_, err := in.ExecContext(b.Context(), i+1, manyID(m.key(i)))
		assert.NoError(b, err, "expire")
	}
	assert.NoError(b, tx.Commit(), "commit")
}

// sweepSome removes n expired records.
func (m *manyRecords) sweepSome(b *testing.B, n int) {
	b.Helper()
	swept := 0
	for swept < n {
		some, err := m.store.Sweep(b.Context(), 10_000)
		assert.NoError(b, err, "Sweep")
		swept += some
		if some == 0 {
			break
		}
	}
	assert.Equal(b, swept, n, "swept")
}
