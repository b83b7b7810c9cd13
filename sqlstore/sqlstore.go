package sqlstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/sqlstore/dbtx"
)

// Dialect is the kind of database.
type Dialect = dbtx.Dialect

// The dialects.
const (
	SQLite     = dbtx.SQLite
	PostgreSQL = dbtx.PostgreSQL
	MySQL      = dbtx.MySQL // and MariaDB
)

// DefaultTable is the name of the table of records, and the beginning of the names of all that goes
// with it.
const DefaultTable = "retrysafe_records"

// Options change a store; nil and every zero field are fine.
type Options struct {
	// Table is the name of the table of records; default [DefaultTable]. Letters, digits and
	// underscores, at most 40.
	Table string
	// Clock is the store's clock on SQLite, for tests; default time.Now. Servers have a clock of
	// their own, and New refuses another one.
	Clock func() time.Time
	// LockWait is the longest that a call waits for its turn to write, and for a connection, where
	// its context does not end earlier; default 5 s. A server that hangs in the middle of a call
	// holds one that has no end of its own for up to three times as long.
	LockWait time.Duration
	// Calls has the connections of the store's own calls: claims, heartbeats, ends and looks.
	// Transactions of the work, and those claims that are part of them, stay with New's db. Where
	// that is full of slow transactions, heartbeats wait for one to end, and leases can be lost; a
	// second pool keeps a way free for them, and a few connections are enough. It must reach the
	// same tables. Default: New's db. SQLite has one writer, whatever the connections: it must be
	// nil there.
	Calls *sql.DB
	// NoGroupCommit commits each call by itself. By default those that come while a transaction is
	// committed are the next one, all of them together: many callers wait for one sync of the disk.
	// Looks at records go together in the same way.
	NoGroupCommit bool
	// Listen hears what is published on a channel of the database, so that those who wait for an
	// attempt of another process need not ask as often. It calls on with an empty text once it
	// listens, and then with each message; it returns when ctx ends, and when it cannot listen any
	// more. PostgreSQL, by adapters/pgxidem.Listen; nil: they ask from time to time. All processes
	// of a table need it, for who has it publishes too: one statement behind the ends that somebody
	// may wait for.
	Listen func(ctx context.Context, channel string, on func(message string)) error
	// Logger gets the store's few warnings; default slog.Default().
	Logger *slog.Logger
}

// Store keeps records in a table. All methods are safe for concurrent use. It has nothing to close:
// the database is the caller's.
//
// On SQLite there is one writer: while a RunTx is open, every other call that writes waits for it,
// heartbeats included, though no longer than its context and [Options].LockWait.
type Store struct {
	db       *sql.DB
	calls    *sql.DB // of the store's own calls; often db
	dialect  Dialect
	backend  backend
	table    string
	queries  queries
	clock    func() time.Time
	lockWait time.Duration
	logger   *slog.Logger

	// writer is held by the one call of this store that writes to a SQLite file; the others queue,
	// first come, first served.
	writer     chan struct{}
	running    running
	turns      turns
	statements statementCache
	listen     func(context.Context, string, func(string)) error
	ears       ears
	criers     criers
	waits      string  // what a caller is told who has waited in vain
	group      *group  // nil: each change is a transaction of its own
	charges    charges // that come at once, where there is a group
	looks      *looks  // nil: each look is a statement of its own
	// by how many microseconds the clock of a server was last seen ahead of this machine's
	ahead  atomic.Int64
	skewed atomic.Bool // the clock was reported
}

var (
	_ retrysafe.Store            = (*Store)(nil)
	_ retrysafe.Issuer           = (*Store)(nil)
	_ retrysafe.Lister           = (*Store)(nil)
	_ retrysafe.Sweeper          = (*Store)(nil)
	_ retrysafe.TxStore[*sql.Tx] = (*Store)(nil)
)

// New returns a store on db. It looks at its arguments only; [Store.Migrate] makes the tables.
//
// The store takes a connection of db for each call and gives it back as it was. On SQLite
// busy_timeout is zero in between, since SQLite's own waiting does not heed contexts.
func New(db *sql.DB, d Dialect, o *Options) (*Store, error) {
	if o == nil {
		o = new(Options)
	}
	s := &Store{
		db: db, calls: cmp.Or(o.Calls, db), dialect: d, table: o.Table, clock: o.Clock, lockWait: o.LockWait, logger: o.Logger, listen: o.Listen, writer: make(chan struct{}, 1),
		running: running{keys: make(map[recordID]chan struct{})}, turns: turns{keys: make(map[recordID]*turn)},
	}
	if s.table == "" {
		s.table = DefaultTable
	}
	if s.lockWait == 0 {
		s.lockWait = 5 * time.Second
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	switch {
	case db == nil:
		return nil, errors.New("sqlstore: New needs a database; open one with sql.Open")
	case d < SQLite || d > MySQL:
		return nil, fmt.Errorf("sqlstore: dialect %d is unknown; use sqlstore.SQLite, sqlstore.PostgreSQL or sqlstore.MySQL", d)
	case d != SQLite && s.clock != nil:
		return nil, errors.New("sqlstore: a server has a clock of its own; leave Options.Clock empty")
	case d == SQLite && o.Calls != nil:
		return nil, errors.New("sqlstore: SQLite has one writer, and a second pool would wait for it as well; leave Options.Calls empty")
	case d != PostgreSQL && s.listen != nil:
		return nil, fmt.Errorf("sqlstore: %s tells nobody of changes; leave Options.Listen empty", d)
	case s.lockWait < 0:
		return nil, fmt.Errorf("sqlstore: LockWait is %v; leave it zero for 5s, or set a limit of your own", s.lockWait)
	}
	if err := checkTable(s.table); err != nil {
		return nil, err
	}
	switch d {
	case SQLite:
		s.backend, s.queries = sqlite{s}, sqliteQueries(s.table)
		s.waits, s.group = sqliteWaits, newGroup(s, 1)
		if s.clock == nil {
			s.clock = time.Now
		}
	case PostgreSQL:
		s.backend, s.queries = newPostgres(s), postgresQueries(s.table)
		s.waits, s.group = serverWaits, newGroup(s, 2)
	case MySQL:
		s.backend, s.queries = newMySQL(s), mysqlQueries(s.table)
		s.waits, s.group = serverWaits, newGroup(s, 2)
	}
	if s.clock == nil {
		s.clock = func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load()) * time.Microsecond) }
	}
	s.looks = newLooks(s)
	if o.NoGroupCommit {
		s.group, s.looks = nil, nil
	}
	return s, nil
}

// Dialect is the kind of database that the store is on.
func (s *Store) Dialect() Dialect { return s.dialect }

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,39}$`)

// checkTable lets through what needs no quoting and leaves room for what is appended to it.
func checkTable(name string) error {
	if !tableName.MatchString(name) {
		return fmt.Errorf("sqlstore: table name %q: use letters, digits and underscores, at most 40, and no digit first", name)
	}
	if strings.HasPrefix(strings.ToLower(name), "sqlite_") {
		return fmt.Errorf("sqlstore: table name %q: names that begin with sqlite_ are SQLite's own", name)
	}
	return nil
}

// recordID is the primary key: SHA-256 of the key's text. It has one length whatever the key, and
// no collation changes it.
type recordID [sha256.Size]byte

func idOf(key retrysafe.StoreKey) recordID {
	text, _ := key.AppendText(make([]byte, 0, 256)) // never fails
	return sha256.Sum256(text)
}
