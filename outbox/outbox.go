package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/dberr"
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

// DefaultTable is the name of the table of messages, and the beginning of the names of all that
// goes with it.
const DefaultTable = "retrysafe_outbox"

// Options change an outbox; nil and every zero field are fine. All processes of one outbox use the
// same.
type Options struct {
	// Table is the name of the table of messages; default [DefaultTable]. Letters, digits and
	// underscores, at most 40.
	Table string
	// MaxPayload is the longest Payload that Add takes, in bytes; default 1 MiB, which most brokers
	// take. A relay holds up to 4 MiB and one message for each partition that it publishes.
	MaxPayload int
	// Keep is how long messages stay in the table after they were published, for those who want to
	// look; default: they are removed at once. Relays remove them.
	Keep time.Duration
	// Logger gets the few warnings; default slog.Default(). It gets no ids, keys and payloads.
	Logger *slog.Logger
}

// Outbox keeps messages in tables. All methods are safe for concurrent use. It has nothing to
// close: the database is the caller's.
type Outbox struct {
	db         *sql.DB
	dialect    Dialect
	table      string
	queries    queries
	maxPayload int
	keep       time.Duration
	logger     *slog.Logger

	writer chan struct{} // whoever writes to a SQLite file, which has one writer at a time
}

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,39}$`)

// New returns an outbox on db. It looks at its arguments only; [Outbox.Migrate] makes the tables.
// The drivers that sqlstore takes will do.
func New(db *sql.DB, d Dialect, o *Options) (*Outbox, error) {
	if o == nil {
		o = new(Options)
	}
	b := &Outbox{db: db, dialect: d, table: o.Table, maxPayload: o.MaxPayload, keep: o.Keep, logger: o.Logger, writer: make(chan struct{}, 1)}
	if b.table == "" {
		b.table = DefaultTable
	}
	if b.maxPayload == 0 {
		b.maxPayload = 1 << 20
	}
	if b.logger == nil {
		b.logger = slog.Default()
	}
	switch {
	case db == nil:
		return nil, errors.New("outbox: New needs a database; open one with sql.Open")
	case d < SQLite || d > MySQL:
		return nil, fmt.Errorf("outbox: dialect %d is unknown; use outbox.SQLite, outbox.PostgreSQL or outbox.MySQL", d)
	case !tableName.MatchString(b.table) || strings.HasPrefix(strings.ToLower(b.table), "sqlite_"):
		return nil, fmt.Errorf("outbox: table name %q: use letters, digits and underscores, at most 40, no digit and no sqlite_ first", b.table)
	case b.maxPayload < 0:
		return nil, fmt.Errorf("outbox: MaxPayload is %d; leave it zero for 1 MiB, or set a limit of your own", b.maxPayload)
	case b.keep < 0:
		return nil, fmt.Errorf("outbox: Keep is %v; leave it zero to remove what was published, or say for how long", b.keep)
	}
	b.queries = queriesOf(d, b.table)
	return b, nil
}

// Dialect is the kind of database that the outbox is on.
func (o *Outbox) Dialect() Dialect { return o.dialect }

// Add writes messages as a part of tx: they are published if it commits, and never if it does not.
// It is one statement for each message; wake a relay of this process after the commit with
// [Relay.Wake], or let it look by itself.
//
// An error that is [ErrDuplicate] leaves the transaction as it was before that message; after any
// other roll back.
func (o *Outbox) Add(ctx context.Context, tx dbtx.Tx, messages ...Message) error {
	if d := tx.Dialect(); d != o.dialect {
		return fmt.Errorf("outbox: the transaction is one of %s, and the outbox is on %s: add in one of the same database", d, o.dialect)
	}
	for i := range messages {
		if err := messages[i].check(o.maxPayload); err != nil {
			return fmt.Errorf("outbox: message %d of %d was not added: %w", i+1, len(messages), err)
		}
	}
	for i := range messages {
		if err := o.add(ctx, tx, messages[i]); err != nil {
			return err
		}
	}
	return nil
}

func (o *Outbox) add(ctx context.Context, tx dbtx.Tx, m Message) error {
	if m.ID == "" {
		m.ID = NewID()
	}
	hash, part := m.place()
	payload := m.Payload
	if payload == nil {
		payload = []byte{}
	}
	n, err := tx.Exec(ctx, o.queries.add, []byte(m.ID), part, hash[:], []byte(m.Topic), []byte(m.Key), []byte(m.ContentType), packHeaders(m.Headers), payload)
	if dberr.MySQLNumber(err) == numberDuplicate || err == nil && n == 0 {
		return ErrDuplicate
	}
	return o.explain("add a message", err)
}
