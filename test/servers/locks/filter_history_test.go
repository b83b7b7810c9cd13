package locks_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe/filter"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
)

// liar says "surely new" at random, also for old ids. alwaysSeen always says "maybe".
type (
	liar       struct{ chance float64 }
	alwaysSeen struct{}
)

func (l liar) AddBatch(_ context.Context, ids [][]byte) ([]bool, error) {
	yes := make([]bool, len(ids))
	for i := range yes {
		yes[i] = rand.Float64() < l.chance
	}
	return yes, nil
}

func (alwaysSeen) AddBatch(_ context.Context, ids [][]byte) ([]bool, error) {
	return make([]bool, len(ids)), nil
}

// importer does what the documentation recommends: ask the filter, look up, insert. The unique
// index decides.
type importer struct {
	db              *sql.DB
	seen            filter.Prefilter
	selects, losers atomic.Int64
}

func newImporter(t *testing.T, seen filter.Prefilter) *importer {
	t.Helper()
	db := sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(sqltest.NewFile(t), "busy_timeout(10000)", "synchronous(OFF)"))
	sqltest.Exec(t, db, "CREATE TABLE orders (id TEXT PRIMARY KEY, total INTEGER NOT NULL) STRICT")
	// Effects must not happen twice, and nothing in this table prevents it.
	sqltest.Exec(t, db, "CREATE TABLE effects (id TEXT NOT NULL)")
	return &importer{db: db, seen: seen}
}

func (m *importer) lookUp(ctx context.Context, id string) (total int, err error) {
	m.selects.Add(1)
	return total, m.db.QueryRowContext(ctx, "SELECT total FROM orders WHERE id = ?", id).Scan(&total)
}

// insertedRow returns what the row has, whichever caller inserted it.
func (m *importer) insertedRow(ctx context.Context, id string, total int) (int, error) {
	yes, err := m.seen.AddBatch(ctx, [][]byte{[]byte(id)}) // before the work
	if err != nil || !yes[0] {
		if stored, err := m.lookUp(ctx, id); !errors.Is(err, sql.ErrNoRows) {
			return stored, err
		}
	}
	tx, err := m.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	res, err := tx.ExecContext(ctx, "INSERT INTO orders (id, total) VALUES (?, ?) ON CONFLICT (id) DO NOTHING", id, total)
	if err != nil {
		return 0, err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		_ = tx.Rollback()
		m.losers.Add(1)
		if err != nil {
			return 0, err
		}
		return m.lookUp(ctx, id)
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO effects (id) VALUES (?)", id); err != nil {
		return 0, err
	}
	return total, tx.Commit()
}

// databaseState returns the final contents of the database.
func (m *importer) databaseState(t *testing.T) (all string) {
	t.Helper()
	rows, err := m.db.QueryContext(t.Context(), "SELECT o.id, total, count(e.id) FROM orders o LEFT JOIN effects e ON e.id = o.id GROUP BY o.id ORDER BY o.id")
	assert.NoError(t, err, "read")
	defer rows.Close()
	for rows.Next() {
		var id string
		var total, n int
		assert.NoError(t, rows.Scan(&id, &total, &n), "scan")
		all += fmt.Sprintln(id, total, n)
	}
	assert.NoError(t, rows.Err(), "rows")
	return all
}

func bloomOf(t *testing.T, items int) *filter.Bloom {
	t.Helper()
	b, err := filter.NewBloom(&filter.Options{Empty: true, Items: items})
	assert.NoError(t, err, "a filter")
	return b
}

// TestFilterChangesNothing: one random history of ids, with a correct filter, one that always says
// "maybe" and two that lie. Effects and answers are the same; only the number of SELECTs differs.
func TestFilterChangesNothing(t *testing.T) {
	t.Parallel()
	h, err := filter.NewHyperLogLog(&filter.Options{Empty: true})
	assert.NoError(t, err, "a sketch")
	always := newImporter(t, alwaysSeen{})
	others := map[string]*importer{
		"bloom": newImporter(t, bloomOf(t, 1000)), "hyperloglog": newImporter(t, h),
		"lies at random": newImporter(t, liar{0.5}), "lies always": newImporter(t, liar{1}),
	}
	const steps, ids = 1500, 400
	for step := range steps {
		id, total := fmt.Sprint("order ", rand.IntN(ids)), rand.IntN(1000)
		want, err := always.insertedRow(t.Context(), id, total)
		assert.NoError(t, err, "step %d", step)
		for name, m := range others {
			got, err := m.insertedRow(t.Context(), id, total)
			assert.NoError(t, err, "%s, step %d", name, step)
			assert.Equal(t, got, want, "%s, step %d: answer", name, step)
		}
	}
	want := always.databaseState(t)
	for name, m := range others {
		assert.Equal(t, m.databaseState(t), want, "%s: rows and effects", name)
	}
	n := int64(sqltest.Count(t, always.db, "orders"))
	assert.Equal(t, always.selects.Load(), int64(steps), "SELECTs that always look")
	spared := others["bloom"]
	assert.True(t, spared.losers.Load() == 0 && spared.selects.Load() <= steps-n+n/20, "a right one: %d SELECTs for %d repeats", spared.selects.Load(), steps-n)
	assert.Equal(t, others["hyperloglog"].losers.Load(), int64(0), "a right one is never wrong about new ids")
	assert.Equal(t, others["lies always"].losers.Load(), steps-n, "old ids that were said to be new, and were found by the index")
}

// TestFilterChangesNothingAtOnce: the same with many concurrent callers. Each id has one effect and
// one answer.
func TestFilterChangesNothingAtOnce(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]filter.Prefilter{"bloom": bloomOf(t, 1000), "lies always": liar{1}, "always seen": alwaysSeen{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newImporter(t, f)
			const ids = 60
			var answers [ids]sync.Map
			var failed atomic.Value
			var all sync.WaitGroup
			for caller := range 6 {
				all.Go(func() {
					for id := range ids {
						total, err := m.insertedRow(t.Context(), fmt.Sprint("order ", id), caller)
						if err != nil {
							failed.Store(err)
						}
						answers[id].Store(total, true)
					}
				})
			}
			all.Wait()
			assert.True(t, failed.Load() == nil, "a caller failed: %v", failed.Load())
			for id := range answers {
				n := 0
				answers[id].Range(func(any, any) bool { n++; return true })
				assert.Equal(t, n, 1, "answers for %d", id)
			}
			assert.True(t, sqltest.Count(t, m.db, "effects") == ids && sqltest.Count(t, m.db, "orders") == ids, "effects")
		})
	}
}

// TestFilterFromRows: a filter is rebuilt from a query of any size. Rebuild returns an error of the
// query.
func TestFilterFromRows(t *testing.T) {
	t.Parallel()
	m := newImporter(t, alwaysSeen{})
	for n := range 300 {
		_, err := m.insertedRow(t.Context(), fmt.Sprint("order ", n), n)
		assert.NoError(t, err, "row")
	}
	b, err := filter.NewBloom(&filter.Options{Items: 1000})
	assert.NoError(t, err, "a filter")
	n, err := b.Rebuild(t.Context(), filter.Rows(m.db.QueryContext(t.Context(), "SELECT id FROM orders")), nil) //nolint:rowserrcheck // Rows checks it
	assert.True(t, n == 300 && err == nil, "%d rows: %v", n, err)
	assert.True(t, !b.Add([]byte("order 299")), "an old one")
	_, err = b.Rebuild(t.Context(), filter.Rows(m.db.QueryContext(t.Context(), "SELECT id FROM nothing")), nil) //nolint:rowserrcheck // Rows checks it
	assert.True(t, err != nil && !b.Stats().Whole, "no such table: %v", err)
	_, err = b.Rebuild(t.Context(), filter.Rows(m.db.QueryContext(t.Context(), "SELECT id, total FROM orders")), nil) //nolint:rowserrcheck // Rows checks it
	assert.True(t, err != nil && !b.Stats().Whole, "two columns: %v", err)
	assert.Equal(t, m.db.Stats().InUse, 0, "connections in use after it")
}
