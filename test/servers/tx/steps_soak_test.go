package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/child"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
)

func init() { child.Parts["parcels"] = playParcels }

// playParcels sends parcels until it is killed, and reports each that was sent. Arguments: driver,
// DSN, file, prefix of the customers.
func playParcels(args []string) error {
	db, err := sql.Open(args[0], args[1])
	if err != nil {
		return err
	}
	dialect := sqlstore.SQLite
	if args[0] == "pgx" {
		dialect = sqlstore.PostgreSQL
	}
	p, err := newParcels(dialect, db, args[2])
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		customer := args[3] + strconv.Itoa(i)
		if err := p.sendParcel(context.Background(), customer); err != nil {
			return err
		}
		fmt.Println(customer)
	}
}

// soakSteps kills a process that sends parcels, again and again at any point, and lets another one
// continue.
func soakSteps(t *testing.T, driver, dsn string, dialect sqlstore.Dialect) {
	t.Helper()
	rounds := 5
	if os.Getenv("RETRYSAFE_SOAK") == "long" {
		rounds = 300
	}
	db := sqltest.Open(t, driver, dsn)
	file := filepath.Join(t.TempDir(), "effects")
	p, err := newParcels(dialect, db, file)
	assert.NoError(t, err, "store")
	assert.NoError(t, p.store.Migrate(t.Context()), "migrate")
	sqltest.Exec(t, db, shops.OrdersTable)
	calls, half := 0, 0
	for round := range rounds {
		assert.NoError(t, errors.Join(os.RemoveAll(file)), "effects of the round before")
		prefix := fmt.Sprint("round-", round, "-")
		c := child.Start(t, "parcels", driver, dsn, file, prefix)
		var sent []string
		for range 1 + rand.IntN(8) {
			customer, ok := c.Read()
			assert.True(t, ok, "the child goes on: %s", c.Stderr.String())
			sent = append(sent, customer)
		}
		assert.NoError(t, c.Cmd.Process.Kill(), "kill the child")
		for customer, ok := c.Read(); ok; customer, ok = c.Read() {
			sent = append(sent, customer) // it was in flight
		}
		assert.True(t, c.Wait(t), "the child was killed")
		last := prefix + strconv.Itoa(len(sent))
		half += sqltest.Count(t, db, "retrysafe_records WHERE state = 2")
		for _, customer := range append(sent, last) {
			p.wantWhole(t, customer, "a kill")
		}
		calls += len(sent) + 1
	}
	t.Logf("%d kills, %d calls, %d of them half-done: doubles of what was kept 0, lost 0", rounds, calls, half)
}

// TestSoakSQLiteSteps is the form of TestSQLiteStepsKilledAtEachPoint that finds unforeseen points.
func TestSoakSQLiteSteps(t *testing.T) {
	t.Parallel()
	soakSteps(t, "sqlite", sqltest.SQLiteDSN(sqltest.NewFile(t)), sqlstore.SQLite)
}

// TestSoakPostgresSteps is the same on a server.
func TestSoakPostgresSteps(t *testing.T) {
	t.Parallel()
	soakSteps(t, "pgx", servers.StartPostgres(t).URL(), sqlstore.PostgreSQL)
}
