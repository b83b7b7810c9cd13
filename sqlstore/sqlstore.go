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
)

// DefaultTable is the name of the table of records, and the beginning of the names of all that goes with it.
const DefaultTable = "retrysafe_records"

// Options change a store; nil and every zero field are fine.
type Options struct {
	// Table is the name of the table of records; default [DefaultTable]. Letters, digits and underscores, at most 40.
	Table string
	// Clock is the store's clock, for tests; default time.Now.
	Clock func() time.Time
	// LockWait is the longest that a call waits for its turn to write, and for a connection, where its context does not end earlier;
	// default 5 s.
	LockWait time.Duration
	// Logger gets the store's few warnings; default slog.Default().
	Logger *slog.Logger
}

// Store keeps records in a table. All methods are safe for concurrent use. It has nothing to close: the database is the caller's.
//
// SQLite has one writer: while a RunTx is open, every other call that writes waits for it, heartbeats included, though no longer
// than its context and [Options].LockWait.
type Store struct {
	db       *sql.DB
	table    string
	queries  queries
	clock    func() time.Time
	lockWait time.Duration
	logger   *slog.Logger

	// writer is held by the one call of this store that writes; the others queue, first come, first served.
	writer  chan struct{}
	running running
	skewed  atomic.Bool // the clock was reported
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
// The store takes a connection of db for each call and gives it back as it was: busy_timeout is zero in between, since SQLite's own
// waiting does not heed contexts.
func New(db *sql.DB, d Dialect, o *Options) (*Store, error) {
	if o == nil {
		o = new(Options)
	}
	s := &Store{
		db: db, table: o.Table, clock: o.Clock, lockWait: o.LockWait, logger: o.Logger, writer: make(chan struct{}, 1),
		running: running{keys: make(map[recordID]chan struct{})},
	}
	if s.table == "" {
		s.table = DefaultTable
	}
	if s.clock == nil {
		s.clock = time.Now
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
	case d != SQLite:
		return nil, fmt.Errorf("sqlstore: dialect %d is unknown; use sqlstore.SQLite", d)
	case s.lockWait < 0:
		return nil, fmt.Errorf("sqlstore: LockWait is %v; leave it zero for 5s, or set a limit of your own", s.lockWait)
	}
	if err := checkTable(s.table); err != nil {
		return nil, err
	}
	s.queries = sqliteQueries(s.table)
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
