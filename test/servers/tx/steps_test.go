package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/child"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

func init() { child.Parts["steps"] = playSteps }

// parcels is an application whose work has steps: a mail and a label, whose effects are lines in a
// file, and an order, which is a row in the database of the records.
type parcels struct {
	dialect sqlstore.Dialect
	db      *sql.DB
	store   *sqlstore.Store
	engine  *retrysafe.Engine
	file    string
}

func newParcels(dialect sqlstore.Dialect, db *sql.DB, file string) (*parcels, error) {
	s, err := sqlstore.New(db, dialect, &sqlstore.Options{LockWait: time.Minute, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	// There are no heartbeats within an hour, so each call makes the same driver steps each time.
	o := &retrysafe.Options{Namespace: "app", Secret: []byte("0123456789abcdef"), Sweep: -1, Policy: retrysafe.Policy{Lease: time.Hour, OnDoubt: retrysafe.Reexecute}}
	return &parcels{dialect, db, s, retrysafe.New(s, o), file}, nil
}

// appendLine adds a line to the file, which outlives the process.
func (p *parcels) appendLine(what, step, customer string) error {
	f, err := os.OpenFile(p.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, what, step, customer)
	return errors.Join(err, f.Close())
}

// sendParcel does the work of a customer's parcel, or continues it.
func (p *parcels) sendParcel(ctx context.Context, customer string) error {
	outside := func(ctx context.Context, step string) error {
		_, err := retrysafe.Step(ctx, step, func(context.Context) (string, error) { return step + " sent", p.appendLine("did", step, customer) })
		if err == nil {
			err = p.appendLine("kept", step, customer)
		}
		return err
	}
	_, err := retrysafe.Run(ctx, p.engine, teststores.OrderKey(customer), func(ctx context.Context) error {
		if err := outside(ctx, "mail"); err != nil {
			return err
		}
		if p.dialect == sqlstore.SQLite {
			_, err := retrysafe.StepTx(ctx, p.store, "order", func(ctx context.Context, tx *sql.Tx) (int64, error) { return shops.Insert(ctx, tx, customer) })
			if err != nil {
				return err
			}
		}
		return outside(ctx, "label")
	})
	return err
}

// wantWhole continues until the parcel is sent, and checks each effect: exactly once if it is in
// the transaction, and never again after it was stored.
func (p *parcels) wantWhole(t *testing.T, customer, after string) {
	t.Helper()
	// The dead process's lease has expired.
	sqltest.Exec(t, p.db, "UPDATE retrysafe_records SET lease_end = 1 WHERE state = 2 AND lease_end > 1")
	assert.NoError(t, p.sendParcel(t.Context(), customer), "the call that goes on after %s", after)
	text, err := os.ReadFile(p.file)
	assert.NoError(t, err, "effects")
	for _, step := range []string{"mail", "label"} {
		did, kept := 0, false
		for line := range strings.Lines(string(text)) {
			switch strings.TrimSpace(line) {
			case "did " + step + " " + customer:
				did++
				assert.True(t, !kept, "%s is done again although it was kept, after %s", step, after)
			case "kept " + step + " " + customer:
				kept = true
			}
		}
		assert.True(t, did == 1 || did == 2, "%s was done %d times, after %s", step, did, after)
	}
	if p.dialect == sqlstore.SQLite {
		n := 0
		err := p.db.QueryRowContext(t.Context(), "SELECT count(*) FROM orders WHERE customer = ?", customer).Scan(&n)
		assert.NoError(t, err, "count orders")
		assert.Equal(t, n, 1, "orders after %s", after)
	}
}

// playSteps sends a parcel and is killed before or after its nth step of the driver. Arguments:
// driver, DSN, file, customer, n, "before" or "after".
func playSteps(args []string) error {
	n, err := strconv.ParseInt(args[4], 10, 64)
	if err != nil {
		return err
	}
	inner, err := sql.Open(args[0], args[1])
	if err != nil {
		return err
	}
	dialect := sqlstore.SQLite
	if args[0] == "pgx" {
		dialect = sqlstore.PostgreSQL
	}
	db, set := sqltest.FaultyDB(inner.Driver(), args[1])
	p, err := newParcels(dialect, db, args[2])
	if err != nil {
		return err
	}
	var taken atomic.Int64
	set(func(step string, run func() error) error {
		if taken.Add(1) != n {
			return run()
		}
		fmt.Println(args[5], step)
		if args[5] == "after" {
			_ = run()
		}
		child.Die()
		return nil
	})
	return p.sendParcel(context.Background(), args[3])
}

// killedAtEachPoint kills a process before and after each driver step of a call with several steps,
// and lets another process continue.
func killedAtEachPoint(t *testing.T, driver, dsn string, dialect sqlstore.Dialect) {
	t.Helper()
	db := sqltest.Open(t, driver, dsn)
	file := filepath.Join(t.TempDir(), "effects")
	p, err := newParcels(dialect, db, file)
	assert.NoError(t, err, "store")
	assert.NoError(t, p.store.Migrate(t.Context()), "migrate")
	sqltest.Exec(t, db, shops.OrdersTable)
	points := map[string]bool{}
	killed := 0
	for n := 1; ; n++ {
		for _, when := range []string{"before", "after"} {
			customer := fmt.Sprint(when, "-", n)
			c := child.Start(t, "steps", driver, dsn, file, customer, strconv.Itoa(n), when)
			point, _ := c.Read()
			if !c.Wait(t) {
				p.wantWhole(t, customer, "the whole of it")
				t.Logf("killed at %d points, statements of %d kinds: doubles of what was kept 0, lost 0", killed, len(points))
				assert.True(t, killed >= 2*15, "kills: %d", killed)
				return
			}
			killed++
			points[point] = true
			p.wantWhole(t, customer, fmt.Sprintf("a kill %s, step %d", point, n))
		}
	}
}

// TestSQLiteStepsKilledAtEachPoint: no double and no lost effects of finished steps, and no double
// effects at all of a step in a transaction.
func TestSQLiteStepsKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	killedAtEachPoint(t, "sqlite", sqltest.SQLiteDSN(sqltest.NewFile(t)), sqlstore.SQLite)
}

// TestPostgresStepsKilledAtEachPoint is the same on a server.
func TestPostgresStepsKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	killedAtEachPoint(t, "pgx", servers.StartPostgres(t).URL(), sqlstore.PostgreSQL)
}

// failsAtEachPoint is the same with a connection that fails at each point, before and after the
// step was done, while the process continues.
func failsAtEachPoint(t *testing.T, driver, dsn string, dialect sqlstore.Dialect) {
	t.Helper()
	db, set := sqltest.FaultyDB(sqltest.Open(t, driver, dsn).Driver(), dsn)
	t.Cleanup(func() { _ = db.Close() })
	p, err := newParcels(dialect, db, filepath.Join(t.TempDir(), "effects"))
	assert.NoError(t, err, "store")
	assert.NoError(t, p.store.Migrate(t.Context()), "migrate")
	sqltest.Exec(t, db, shops.OrdersTable)
	for n := int64(1); ; n++ {
		for _, applied := range []bool{true, false} {
			customer := fmt.Sprint("customer ", n, " ", applied)
			var taken atomic.Int64
			var hit atomic.Value
			set(func(step string, run func() error) error {
				if taken.Add(1) != n {
					return run()
				}
				hit.Store(step)
				if applied {
					return errors.Join(run(), sqltest.ErrCut)
				}
				return sqltest.ErrCut
			})
			_ = p.sendParcel(t.Context(), customer)
			set(nil)
			p.wantWhole(t, customer, fmt.Sprintf("a failure of %q, applied %v", hit.Load(), applied))
			if hit.Load() == nil {
				assert.True(t, n > 15, "steps that failed: %d", n)
				return
			}
		}
	}
}

func TestSQLiteStepsFailAtEachPoint(t *testing.T) {
	t.Parallel()
	failsAtEachPoint(t, "sqlite", sqltest.SQLiteDSN(sqltest.NewFile(t)), sqlstore.SQLite)
}

func TestPostgresStepsFailAtEachPoint(t *testing.T) {
	t.Parallel()
	failsAtEachPoint(t, "pgx", servers.StartPostgres(t).URL(), sqlstore.PostgreSQL)
}
