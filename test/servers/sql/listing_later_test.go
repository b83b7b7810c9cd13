package sql_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestSQLListingLater: the index of keys for a table that is in use must be ready within LockWait,
// since writers wait meanwhile. Otherwise the error has the statement that makes it without holding
// up anybody, and after that Migrate waits for no writer.
func TestSQLListingLater(t *testing.T) {
	t.Parallel()
	shops.EachServer(t, func(t *testing.T, d shops.Database) {
		t.Helper()
		a := d.Shop(t)
		table := teststores.NewTable()
		with := func(listing bool, wait time.Duration) *sqlstore.Store {
			s, err := sqlstore.New(a.DB, a.Store.Dialect(), &sqlstore.Options{Table: table, Listing: listing, LockWait: wait})
			assert.NoError(t, err, "New")
			return s
		}
		plain := with(false, 0)
		assert.NoError(t, plain.Migrate(t.Context()), "Migrate without the index")
		_, err := plain.Acquire(t.Context(), teststores.Request("one"))
		assert.NoError(t, err, "Acquire")
		writes := func() (end func() error) {
			tx, err := a.DB.BeginTx(t.Context(), nil)
			assert.NoError(t, err, "begin")
			_, err = tx.ExecContext(t.Context(), "UPDATE "+table+" SET updated = updated + 1") //nolint:gosec // a name made here
			assert.NoError(t, err, "somebody writes")
			return tx.Rollback
		}

		end := writes()
		err = with(true, time.Second).Migrate(t.Context())
		assert.True(t, err != nil && strings.Contains(err.Error(), "LockWait (1s)"), "the index beside a writer: %v", err)
		assert.NoError(t, end(), "the writer ends")
		_, statement, _ := strings.Cut(err.Error(), "call Migrate again: ")
		_, err = a.DB.ExecContext(t.Context(), statement)
		// MariaDB may still have made it, in the second after the call was given up
		assert.True(t, err == nil || strings.Contains(err.Error(), "Duplicate key name"), "the statement of the error, %s: %v", statement, err)

		defer writes()()
		assert.NoError(t, with(true, time.Minute).Migrate(t.Context()), "Migrate beside a writer, when the index is there")
	})
}

// TestPostgresListingNotValid: an index that was interrupted while it was made is of no use, and
// Migrate says how to remove it. One of the same name in another schema is not taken for it.
func TestPostgresListingNotValid(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	plain, db := teststores.Postgres(t, server.URL(), &sqlstore.Options{Table: "Orders"})
	_, err := plain.Acquire(t.Context(), teststores.Request("one"))
	assert.NoError(t, err, "Acquire")
	with := func(parameters ...string) error {
		s, err := sqlstore.New(sqltest.Open(t, "pgx", server.URL(parameters...)), sqlstore.PostgreSQL, &sqlstore.Options{Table: "Orders", Listing: true})
		assert.NoError(t, err, "New")
		return s.Migrate(t.Context())
	}
	tx, err := db.BeginTx(t.Context(), nil)
	assert.NoError(t, err, "begin")
	_, err = tx.ExecContext(t.Context(), `UPDATE "Orders" SET updated = updated + 1`)
	assert.NoError(t, err, "somebody writes")
	hasty := sqltest.Open(t, "pgx", server.URL("statement_timeout=100"))
	_, err = hasty.ExecContext(t.Context(), `CREATE INDEX CONCURRENTLY "Orders_listing" ON "Orders" (parts)`)
	assert.True(t, err != nil, "the statement is interrupted")
	assert.NoError(t, tx.Rollback(), "rollback")
	err = with()
	assert.Contains(t, fmt.Sprint(err), "is not valid", "Migrate with half an index")
	_, statement, _ := strings.Cut(fmt.Sprint(err), "call Migrate again: ")
	sqltest.Exec(t, db, statement)
	assert.NoError(t, with(), "Migrate without it")

	sqltest.Exec(t, db, `CREATE SCHEMA b`)
	for _, suffix := range []string{"", "_limits", "_meta"} {
		sqltest.Exec(t, db, `CREATE TABLE b."Orders`+suffix+`" (LIKE "Orders`+suffix+`" INCLUDING ALL EXCLUDING INDEXES)`)
	}
	sqltest.Exec(t, db, `ALTER TABLE b."Orders" ADD PRIMARY KEY (id)`)
	sqltest.Exec(t, db, `INSERT INTO b."Orders_meta" SELECT * FROM "Orders_meta"`)
	assert.NoError(t, with("search_path=b,public"), "Migrate with another schema first")
	var n int
	assert.NoError(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_indexes WHERE schemaname = 'b' AND indexname = 'Orders_listing'`).Scan(&n), "count")
	assert.Equal(t, n, 1, "indexes in that schema")
}

// TestSQLListingOfAnotherColumn: an index that has the name and not the column is not taken for the
// index of keys. Migrate has the statement that frees the name.
func TestSQLListingOfAnotherColumn(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, d shops.Database, index, on string) {
		t.Helper()
		a := d.Shop(t)
		s, err := sqlstore.New(a.DB, a.Store.Dialect(), &sqlstore.Options{Listing: true})
		assert.NoError(t, err, "New")
		sqltest.Exec(t, a.DB, `CREATE INDEX `+index+` ON retrysafe_records `+on)
		err = s.Migrate(t.Context())
		assert.Contains(t, fmt.Sprint(err), "not on all of the column parts", "Migrate")
		_, statement, _ := strings.Cut(fmt.Sprint(err), "call Migrate again: ")
		sqltest.Exec(t, a.DB, statement)
		for range 2 {
			assert.NoError(t, s.Migrate(t.Context()), "Migrate when the name is free")
		}
	}
	shops.EachServer(t, func(t *testing.T, d shops.Database) {
		t.Helper()
		if d.Dialect == sqlstore.MySQL {
			check(t, d, "listing", "(owner)")
			return
		}
		for _, on := range []string{"(owner)", "USING hash (parts)", "(parts) WHERE state = 3"} {
			check(t, d, "retrysafe_records_listing", on)
			sqltest.Exec(t, d.Shop(t).DB, "DROP INDEX IF EXISTS retrysafe_records_listing, retrysafe_records_listing_other")
		}
	})
	file := shops.NewFile(t)
	s, err := sqlstore.New(file.DB, sqlstore.SQLite, &sqlstore.Options{Listing: true})
	assert.NoError(t, err, "New")
	for _, on := range []string{"(owner)", "(parts) WHERE state = 3"} {
		sqltest.Exec(t, file.DB, `CREATE INDEX retrysafe_records_listing ON retrysafe_records `+on)
		assert.Contains(t, fmt.Sprint(s.Migrate(t.Context())), "not on all of the column parts", "Migrate of a file with an index %s", on)
		sqltest.Exec(t, file.DB, `DROP INDEX retrysafe_records_listing`)
	}
	assert.NoError(t, s.Migrate(t.Context()), "Migrate of a file when the name is free")
}

// TestSQLListingRights: a user who does not own the table cannot make the index, and gets the
// statement for its owner. Once the index is there, that user can migrate.
func TestSQLListingRights(t *testing.T) {
	t.Parallel()
	const grant = `GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO %s`
	type starter = func() (d shops.Database, clerk, user string)
	onPostgres := func(v *servers.PostgresVersion) starter {
		return func() (shops.Database, string, string) {
			url := v.Start(t).URL()
			return shops.OnPostgres(url), strings.Replace(url, "retrysafe@", "clerk@", 1), "clerk"
		}
	}
	for name, start := range servers.WithPostgres(map[string]starter{
		"MariaDB": func() (shops.Database, string, string) {
			dsn := servers.StartMySQL(t).DSN()
			return shops.OnMySQL(dsn), strings.Replace(dsn, "root@", "clerk@", 1), "clerk@'%'"
		},
	}, onPostgres) {
		d, clerk, user := start()
		admin := d.Shop(t).DB
		sqltest.Exec(t, admin, `CREATE USER `+user)
		for _, suffix := range []string{"", "_limits", "_meta"} {
			sqltest.Exec(t, admin, fmt.Sprintf(grant, "retrysafe_records"+suffix, user))
		}
		s, err := sqlstore.New(sqltest.Open(t, d.Driver, clerk), d.Dialect, &sqlstore.Options{Listing: true})
		assert.NoError(t, err, "New")
		err = s.Migrate(t.Context())
		assert.Contains(t, fmt.Sprint(err), "let the owner of the table make it", "%s: no right to make the index", name)
		_, statement, _ := strings.Cut(fmt.Sprint(err), "call Migrate again: ")
		statement, _, _ = strings.Cut(statement, ": ")
		sqltest.Exec(t, admin, statement)
		assert.NoError(t, s.Migrate(t.Context()), "%s: the index is there", name)
	}
}

// TestSQLListingDeadline: the error of a call whose context ends before LockWait does not say that
// LockWait has passed.
func TestSQLListingDeadline(t *testing.T) {
	t.Parallel()
	a := shops.OnPostgres(servers.PostgresDatabase(t)).Shop(t)
	tx, err := a.DB.BeginTx(t.Context(), nil)
	assert.NoError(t, err, "begin")
	defer tx.Rollback()
	_, err = tx.ExecContext(t.Context(), "LOCK TABLE retrysafe_records IN ROW EXCLUSIVE MODE")
	assert.NoError(t, err, "somebody writes")
	s, err := sqlstore.New(a.DB, sqlstore.PostgreSQL, &sqlstore.Options{Listing: true, LockWait: time.Hour})
	assert.NoError(t, err, "New")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	err = s.Migrate(ctx)
	assert.True(t, err != nil && !strings.Contains(err.Error(), "after LockWait"), "Migrate with a deadline: %v", err)
}
