package shops

import (
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// Each runs a test on each kind of database, and on each version of PostgreSQL, with two processes
// on it.
func Each(t *testing.T, f func(t *testing.T, a, b *Shop)) {
	t.Helper()
	runEach(t, EachServer, f)
}

// EachKind is Each on one version of PostgreSQL: for what another version cannot change.
func EachKind(t *testing.T, f func(t *testing.T, a, b *Shop)) {
	t.Helper()
	runEach(t, EachKindOfServer, f)
}

func runEach(t *testing.T, eachServer func(*testing.T, func(*testing.T, Database)), f func(t *testing.T, a, b *Shop)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		path := sqltest.NewFile(t)
		f(t, New(t, sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(path)), nil), New(t, sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(path)), nil))
	})
	eachServer(t, func(t *testing.T, server Database) {
		t.Helper()
		f(t, server.Shop(t), server.Process(t))
	})
}

// Database is a database with concurrent writers.
type Database struct {
	Dialect sqlstore.Dialect
	Driver  string
	DSN     string
	orders  string // creates their table
}

// OnPostgres returns the database at url.
func OnPostgres(url string) Database {
	return Database{
		Dialect: sqlstore.PostgreSQL, Driver: "pgx", DSN: url,
		orders: "CREATE TABLE IF NOT EXISTS orders (id SERIAL PRIMARY KEY, customer TEXT NOT NULL)",
	}
}

// OnMySQL returns the database at dsn.
func OnMySQL(dsn string) Database {
	return Database{
		Dialect: sqlstore.MySQL, Driver: "mysql", DSN: dsn,
		orders: "CREATE TABLE IF NOT EXISTS orders (id INT AUTO_INCREMENT PRIMARY KEY, customer VARCHAR(100) NOT NULL) ENGINE=InnoDB",
	}
}

// EachServer runs a test on each kind of server, and on each version of PostgreSQL.
func EachServer(t *testing.T, f func(*testing.T, Database)) {
	t.Helper()
	servers.EachPostgres(t, func(t *testing.T, v *servers.PostgresVersion) {
		t.Helper()
		f(t, OnPostgres(v.Database(t)))
	})
	onMariaDB(t, f)
}

// EachKindOfServer is EachServer on one version of PostgreSQL: for what another version cannot
// change.
func EachKindOfServer(t *testing.T, f func(*testing.T, Database)) {
	t.Helper()
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		f(t, OnPostgres(servers.PostgresDatabase(t)))
	})
	onMariaDB(t, f)
}

func onMariaDB(t *testing.T, f func(*testing.T, Database)) {
	t.Helper()
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		f(t, OnMySQL(servers.MySQLDatabase(t)))
	})
}

// EachServerAndWords is like EachServer, with a MariaDB that refuses what only MariaDB has.
func EachServerAndWords(t *testing.T, f func(*testing.T, Database)) {
	t.Helper()
	EachServer(t, f)
	t.Run("MySQL's words", func(t *testing.T) {
		t.Parallel()
		server := OnMySQL(servers.MySQLDatabase(t))
		server.Driver = sqltest.MySQLWords
		f(t, server)
	})
}

// Shop returns one process of an application on the server, with empty tables.
func (s Database) Shop(t *testing.T) *Shop {
	t.Helper()
	another := s.Process(t)
	sqltest.Exec(t, another.DB, "DELETE FROM orders")
	sqltest.Exec(t, another.DB, "DELETE FROM retrysafe_records")
	return another
}

// Process returns one more process.
func (s Database) Process(t *testing.T) *Shop {
	t.Helper()
	db := sqltest.Open(t, s.Driver, s.DSN)
	db.SetMaxOpenConns(10)
	db.SetMaxIdleConns(10)
	store, err := sqlstore.New(db, s.Dialect, nil)
	assert.NoError(t, err, "a store")
	assert.NoError(t, store.Migrate(t.Context()), "Migrate")
	sqltest.Exec(t, db, s.orders)
	return &Shop{Store: store, Engine: teststores.Engine(t, store), DB: db}
}
