package tx_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestServerTablesStay: a session whose search_path or database was changed, where other tables of
// the same names are, finds the records of the store all the same. So does a session with a
// temporary table of that name.
func TestServerTablesStay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		server            shops.Database
		other, there, own string
	}{
		"PostgreSQL": {
			shops.OnPostgres(servers.PostgresDatabase(t)), "CREATE SCHEMA other", "SET search_path = other, public", "public.",
		},
		"MariaDB": {shops.OnMySQL(servers.StartMySQL(t).DSN()), "CREATE DATABASE other", "USE other", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := c.server.Shop(t)
			var home string
			if c.own == "" {
				assert.NoError(t, s.DB.QueryRowContext(t.Context(), "SELECT DATABASE()").Scan(&home), "the database")
				c.own = home + "."
			}
			// The other tables are there as well, made by another process.
			sqltest.Exec(t, s.DB, c.other)
			theirs := sqltest.Open(t, c.server.Driver, c.server.DSN)
			theirs.SetMaxOpenConns(1)
			sqltest.Exec(t, theirs, c.there)
			if c.server.Dialect == sqlstore.PostgreSQL {
				sqltest.Exec(t, theirs, "SET search_path = other")
			}
			another, err := sqlstore.New(theirs, c.server.Dialect, nil)
			assert.NoError(t, err, "another store")
			assert.NoError(t, another.Migrate(t.Context()), "Migrate")

			s.DB.SetMaxOpenConns(1)
			order := func(customer string, then string) error {
				_, err := retrysafe.DoTx(t.Context(), s.Engine, s.Store, teststores.OrderKey(customer), func(ctx context.Context, tx *sql.Tx) (int64, error) {
					_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO %sorders (customer) VALUES ('%s')", c.own, customer))
					if err == nil && then != "" {
						_, err = tx.ExecContext(ctx, then)
					}
					return 1, err
				})
				return err
			}
			count := func(customer string) (n int) {
				assert.NoError(t, s.DB.QueryRowContext(t.Context(), fmt.Sprintf("SELECT count(*) FROM %sorders WHERE customer = '%s'", c.own, customer)).Scan(&n), "count")
				return n
			}
			assert.NoError(t, order("before", ""), "before")
			sqltest.Exec(t, s.DB, c.there)
			assert.NoError(t, order("before", ""), "a repeat in a session that was changed")
			assert.Equal(t, count("before"), 1, "orders of a repeat")
			for i, then := range []string{c.there, "CREATE TEMPORARY TABLE retrysafe_records (id INT)"} {
				customer := fmt.Sprint("inside ", i)
				if i == 1 && c.server.Dialect == sqlstore.MySQL {
					break // a temporary table has the name of a database, too
				}
				assert.NoError(t, order(customer, then), "work that sends %s", then)
				assert.NoError(t, order(customer, ""), "its repeat")
				assert.Equal(t, count(customer), 1, "orders after %s", then)
			}
		})
	}
}

// TestPostgresSchema: Options.Table names a schema, in which Migrate makes the tables and each call
// finds them.
func TestPostgresSchema(t *testing.T) {
	t.Parallel()
	server := shops.OnPostgres(servers.PostgresDatabase(t))
	db := sqltest.Open(t, server.Driver, server.DSN)
	open := func() *sqlstore.Store {
		s, err := sqlstore.New(db, sqlstore.PostgreSQL, &sqlstore.Options{Table: "billing.retrysafe_records", Listing: true})
		assert.NoError(t, err, "New")
		return s
	}
	assert.Contains(t, fmt.Sprint(open().Migrate(t.Context())), "schema", "Migrate without the schema")
	sqltest.Exec(t, db, "CREATE SCHEMA billing")
	for range 2 {
		assert.NoError(t, open().Migrate(t.Context()), "Migrate")
	}
	s := open()
	engine := teststores.Engine(t, s)
	runs := 0
	for range 2 {
		_, err := retrysafe.Do(t.Context(), engine, teststores.OrderKey("ada"), func(context.Context) (int, error) { runs++; return 1, nil })
		assert.NoError(t, err, "Do")
		_, err = retrysafe.DoTx(t.Context(), engine, s, teststores.OrderKey("ada"), func(context.Context, *sql.Tx) (int, error) { runs++; return 1, nil })
		assert.NoError(t, err, "DoTx")
	}
	assert.Equal(t, runs, 2, "runs")
	assert.Equal(t, sqltest.Count(t, db, "billing.retrysafe_records"), 2, "records")
	for table, want := range map[string]string{"a.b.c": "letters", ".b": "schema", "a b.c": "schema", "a.": "table name"} {
		_, err := sqlstore.New(db, sqlstore.PostgreSQL, &sqlstore.Options{Table: table})
		assert.Contains(t, fmt.Sprint(err), want, "Table %q", table)
	}
	_, err := sqlstore.New(db, sqlstore.MySQL, &sqlstore.Options{Table: "a.b"})
	assert.Contains(t, fmt.Sprint(err), "no schemas", "a schema on MySQL")
}
