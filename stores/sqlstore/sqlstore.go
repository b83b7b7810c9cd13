package sqlstore

import (
	"context"
	"database/sql"

	"github.com/retrysafe/retrysafe/stores/sqlstore/internal/batch"
	"github.com/retrysafe/retrysafe/stores/sqlstore/internal/table"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Store keeps records in a table. All methods are safe for concurrent use. A Store need not be
// closed: the database is the caller's.
//
// SQLite has one writer. While a RunTx is open, every other call that writes waits for it,
// including heartbeats, but no longer than its context and [Options].LockWait.
type Store struct {
	db      *table.Database
	listing bool // there is an index on the parts of keys

	queue        *batch.Queue
	grouped      bool // changes and lookups of many callers are made together
	runningTxs   runningTxs
	listen       func(context.Context, string, func(string)) error
	listeners    listeners
	endPublisher endPublisher
	chargeQueues chargeQueues // concurrent charges; used if grouped
}

var (
	_ storeapi.Store            = (*Store)(nil)
	_ storeapi.Issuer           = (*Store)(nil)
	_ storeapi.Lister           = (*Store)(nil)
	_ storeapi.Sweeper          = (*Store)(nil)
	_ storeapi.TxStore[*sql.Tx] = (*Store)(nil)
)

// New returns a store on db. It only checks its arguments; [Store.Migrate] creates the tables.
//
// For each call the store takes a connection of db and returns it in the same state. On SQLite it
// sets busy_timeout to zero in between, since SQLite's own waiting ignores contexts.
func New(db *sql.DB, d Dialect, o *Options) (*Store, error) {
	if o == nil {
		o = new(Options)
	}
	if err := o.checkOptions(db, d); err != nil {
		return nil, err
	}
	own := table.Open(db, d, table.Settings{Table: o.Table, Clock: o.Now, LockWait: o.LockWait, Calls: o.StoreDB, Logger: o.Logger})
	s := &Store{
		db: own, listing: o.Listing, listen: o.Listen, grouped: !o.NoGroupCommit,
		runningTxs: runningTxs{keys: make(map[table.RecordID]chan struct{})},
	}
	lanes := 2
	if d == SQLite {
		lanes = 1
	}
	if o.NoGroupCommit {
		lanes = 0
	}
	s.queue = batch.New(own, lanes)
	return s, nil
}

// Dialect returns the kind of database that the store is on.
func (s *Store) Dialect() Dialect { return s.db.Dialect }
