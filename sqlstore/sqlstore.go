package sqlstore

import (
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
)

// Dialect is the kind of database.
type Dialect uint8

// The dialects.
const (
	SQLite Dialect = iota + 1
	PostgreSQL
)

// DefaultTable is the name of the table of records, and the beginning of the names of all that goes with it.
const DefaultTable = "retrysafe_records"

// Options change a store; nil and every zero field are fine.
type Options struct {
	// Table is the name of the table of records; default [DefaultTable]. Letters, digits and underscores, at most 40.
	Table string
	// Clock is the store's clock on SQLite, for tests; default time.Now. PostgreSQL has a clock of its own, and New refuses another one.
	Clock func() time.Time
	// LockWait is the longest that a call waits for its turn to write, and for a connection, where its context does not end earlier;
	// default 5 s. On PostgreSQL a server that hangs holds a call for as long and a second.
	LockWait time.Duration
	// Logger gets the store's few warnings; default slog.Default().
	Logger *slog.Logger
}

// Store keeps records in a table. All methods are safe for concurrent use. It has nothing to close: the database is the caller's.
//
// On SQLite there is one writer: while a RunTx is open, every other call that writes waits for it, heartbeats included, though no longer
// than its context and [Options].LockWait.
type Store struct {
	db       *sql.DB
	dialect  Dialect
	backend  backend
	table    string
	queries  queries
	clock    func() time.Time
	lockWait time.Duration
	logger   *slog.Logger

	// writer is held by the one call of this store that writes to a SQLite file; the others queue, first come, first served.
	writer  chan struct{}
	running running
	turns   turns
	ahead   atomic.Int64 // by how many microseconds the clock of a PostgreSQL server was last seen ahead of this machine's
	skewed  atomic.Bool  // the clock was reported
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
// The store takes a connection of db for each call and gives it back as it was. On SQLite busy_timeout is zero in between, since SQLite's
// own waiting does not heed contexts.
func New(db *sql.DB, d Dialect, o *Options) (*Store, error) {
	if o == nil {
		o = new(Options)
	}
	s := &Store{
		db: db, dialect: d, table: o.Table, clock: o.Clock, lockWait: o.LockWait, logger: o.Logger, writer: make(chan struct{}, 1),
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
	case d != SQLite && d != PostgreSQL:
		return nil, fmt.Errorf("sqlstore: dialect %d is unknown; use sqlstore.SQLite or sqlstore.PostgreSQL", d)
	case d == PostgreSQL && s.clock != nil:
		return nil, errors.New("sqlstore: PostgreSQL has a clock of its own; leave Options.Clock empty")
	case s.lockWait < 0:
		return nil, fmt.Errorf("sqlstore: LockWait is %v; leave it zero for 5s, or set a limit of your own", s.lockWait)
	}
	if err := checkTable(s.table); err != nil {
		return nil, err
	}
	switch d {
	case SQLite:
		s.backend, s.queries = sqlite{s}, sqliteQueries(s.table)
		if s.clock == nil {
			s.clock = time.Now
		}
	case PostgreSQL:
		s.backend, s.queries = postgres{s}, postgresQueries(s.table)
		s.clock = func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load()) * time.Microsecond) }
	}
	return s, nil
}

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

// recordID is the primary key: SHA-256 of the key's text. It has one length whatever the key, and no collation changes it.
type recordID [sha256.Size]byte

func idOf(key retrysafe.StoreKey) recordID {
	text, _ := key.AppendText(make([]byte, 0, 256)) // never fails
	return sha256.Sum256(text)
}
