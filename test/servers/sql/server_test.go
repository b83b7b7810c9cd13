package sql_test

import (
	"database/sql"
	"io"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// sqlServer is a server for one test, with what differs between the kinds of servers.
type sqlServer struct {
	url string
	// patient is url with sessions that wait for locks for a long time, and strict is url with
	// the strictest isolation that the kind is tested with.
	patient, strict string
	// the database at another address
	at    func(addr string, parameters ...string) string
	store func(tb testing.TB, url string, o *sqlstore.Options) (*sqlstore.Store, *sql.DB)

	// hold opens another transaction that inserts the record of a key, or locks the existing one.
	hold func(t *testing.T, db *sql.DB, table string, key storeapi.StoreKey) (release func())
	// waiting returns how many sessions wait for a lock, and idle waits until no transaction is
	// open.
	waiting func(t *testing.T, db *sql.DB) int
	idle    func(t *testing.T)

	kill  func()
	start func(tb testing.TB)
	stall func() (resume func())

	port string
	read func(r io.Reader, s *servers.Session) (raw []byte, statement string, err error)
	// early are beginnings of statements of a transaction before its commit, the first one first.
	early   []string
	commits string
}

// sqlServers start the kinds of servers. A durable one does not lose what it has committed when it
// crashes.
var sqlServers = servers.WithPostgres(map[string]func(t *testing.T, durable bool) *sqlServer{"MariaDB": newMariaDB},
	func(v *servers.PostgresVersion) func(*testing.T, bool) *sqlServer {
		return func(t *testing.T, durable bool) *sqlServer { t.Helper(); return newPostgres(t, v, durable) }
	})

// eachSQLServer runs a test on each kind, with a server of its own.
func eachSQLServer(t *testing.T, f func(t *testing.T, server *sqlServer)) {
	t.Helper()
	for name, start := range sqlServers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, start(t, false))
		})
	}
}

// startProxy returns a proxy in front of the server.
func (s *sqlServer) startProxy(t *testing.T) *servers.SQLProxy {
	t.Helper()
	return servers.StartSQLProxy(t, s.port, s.read)
}

// aCommit ends a message of PostgreSQL with a COMMIT; other messages contain READ COMMITTED.
const aCommit = "COMMIT\x00"

func newPostgres(t *testing.T, v *servers.PostgresVersion, durable bool) *sqlServer {
	t.Helper()
	var args []string
	if durable {
		args = []string{"-c", "fsync=on"}
	}
	s := v.Start(t, args...)
	return &sqlServer{
		url: s.URL(), patient: s.URL(), strict: s.URL("default_transaction_isolation=serializable"), at: s.At, store: teststores.Postgres,
		hold: holdRow, waiting: waitingForLocks, idle: func(t *testing.T) { t.Helper(); waitPostgresIdle(t, s) },
		kill: s.Kill, start: s.Start, stall: s.Stall,
		port: s.Port, read: servers.PostgresMessage, early: []string{"BEGIN"}, commits: aCommit,
	}
}

// waitingForLocks returns how many connections of the server wait for a lock.
func waitingForLocks(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`).Scan(&n)
	assert.NoError(t, err, "look at the server")
	return n
}

func waitPostgresIdle(t *testing.T, server *servers.Postgres) {
	t.Helper()
	db := sqltest.Open(t, "pgx", server.URL())
	waits.Until(t.Context(), func() bool {
		var n int
		err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND state <> 'idle' AND pid <> pg_backend_pid()`).Scan(&n)
		assert.NoError(t, err, "look at the server")
		return n == 0
	})
}

// Beginnings of the statements of a transaction.
const (
	mysqlBegins  = "SET @retrysafe_autocommit"
	mysqlLocks   = "FOR UPDATE"
	mysqlWrites  = "INSERT INTO"
	mysqlCommits = "SET autocommit ="
)

func newMariaDB(t *testing.T, durable bool) *sqlServer {
	t.Helper()
	var args []string
	if durable {
		args = []string{"--innodb-flush-log-at-trx-commit=1", "--innodb-flush-method=fsync"}
	}
	s := servers.StartMySQL(t, args...)
	return &sqlServer{
		url: s.DSN(), patient: s.DSN("innodb_lock_wait_timeout=600"), strict: s.DSN(), at: s.At, store: teststores.MySQL,
		hold: holdMySQLRow, waiting: mysqlWaiting, idle: func(t *testing.T) { t.Helper(); waitMySQLIdle(t, s) },
		kill: s.Kill, start: s.Start, stall: s.Stall,
		port: s.Port, read: servers.MySQLMessage, early: []string{mysqlBegins, mysqlLocks, mysqlWrites}, commits: mysqlCommits,
	}
}

// mysqlTransactions returns a number from the server's table of transactions. The server refreshes
// that table only if no query has read it for a tenth of a second.
func mysqlTransactions(t *testing.T, db *sql.DB, query string) (n int) {
	t.Helper()
	sqltest.Exec(t, db, `DO SLEEP(0.11)`)
	assert.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&n), "look at the server")
	return n
}

// mysqlWaiting returns how many transactions of the server wait for a lock.
func mysqlWaiting(t *testing.T, db *sql.DB) int {
	t.Helper()
	return mysqlTransactions(t, db, `SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'`)
}

// waitMySQLIdle waits until no transaction is open on the server.
func waitMySQLIdle(t *testing.T, server *servers.MySQL) {
	t.Helper()
	db := teststores.OpenMySQL(t, server.DSN())
	waits.Until(t.Context(), func() bool {
		return mysqlTransactions(t, db, `SELECT count(*) FROM information_schema.innodb_trx`) == 0
	})
}
