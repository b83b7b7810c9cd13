package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// Dialect is the kind of database.
type Dialect = dbtx.Dialect

// The dialects.
const (
	SQLite     = dbtx.SQLite
	PostgreSQL = dbtx.PostgreSQL
	MySQL      = dbtx.MySQL // and MariaDB
)

// DefaultTable is the default name of the table of messages, and the prefix of the names of all
// related objects.
const DefaultTable = "retrysafe_outbox"

// longestTable leaves room for the suffixes of related objects.
const longestTable = 40

// Options configure an outbox. nil and every zero field are valid. All processes of one outbox must
// use the same options.
type Options struct {
	// Table is the name of the table of messages; default [DefaultTable]. Letters, digits and
	// underscores, at most 40.
	Table string
	// MaxPayload is the longest Payload that Add accepts, in bytes; default 1 MiB, which most
	// brokers accept. For each partition that it publishes, a relay holds up to 4 MiB and one
	// message more.
	MaxPayload int
	// Keep is how long published messages stay in the table for inspection. By default they are
	// removed at once. Relays remove them.
	Keep time.Duration
	// Prepare is called for each message that Add writes, with the context of Add, before the
	// message is checked. It may add headers, for example those of a trace, to Headers, which is
	// then a copy of the caller's map and not nil. Concurrent calls of Add call it concurrently.
	Prepare func(context.Context, *Message)
	// Logger gets the few warnings; default slog.Default(). It gets no ids, keys and payloads.
	Logger *slog.Logger
}

// Outbox keeps messages in tables. All methods can be called concurrently. It needs no Close; the
// caller owns the database.
type Outbox struct {
	db         *sql.DB
	dialect    Dialect
	table      string
	queries    queries
	maxPayload int
	keep       time.Duration
	prepare    func(context.Context, *Message)
	logger     *slog.Logger

	writer chan struct{} // the one writer of a SQLite file
}

// New returns an outbox on db. It only checks its arguments; [Outbox.Migrate] creates the tables.
// It works with the drivers that sqlstore supports.
func New(db *sql.DB, d Dialect, o *Options) (*Outbox, error) {
	if o == nil {
		o = new(Options)
	}
	b := &Outbox{db: db, dialect: d, table: o.Table, maxPayload: o.MaxPayload, keep: o.Keep, prepare: o.Prepare, logger: o.Logger, writer: make(chan struct{}, 1)}
	if b.table == "" {
		b.table = DefaultTable
	}
	if b.maxPayload == 0 {
		b.maxPayload = 1 << 20
	}
	if b.logger == nil {
		b.logger = slog.Default()
	}
	badName := sqlkit.CheckTable(b.table, longestTable)
	switch {
	case db == nil:
		return nil, errors.New("outbox: New needs a database; open one with sql.Open")
	case !sqlkit.Known(d):
		return nil, fmt.Errorf("outbox: dialect %d is unknown; use outbox.SQLite, outbox.PostgreSQL or outbox.MySQL", d)
	case badName != nil:
		return nil, fmt.Errorf("outbox: %w", badName)
	case b.maxPayload < 0:
		return nil, fmt.Errorf("outbox: MaxPayload is %d; leave it zero for 1 MiB, or set a limit of your own", b.maxPayload)
	case b.keep < 0:
		return nil, fmt.Errorf("outbox: Keep is %v; leave it zero to remove what was published, or say for how long", b.keep)
	}
	b.queries = queriesFor(d, b.table)
	return b, nil
}

// Dialect returns the kind of database.
func (o *Outbox) Dialect() Dialect { return o.dialect }

// Add writes messages as a part of tx. They are published if tx commits, and never if it does not.
// Each message is one statement. After the commit, call [Relay.Wake] to wake a relay in this
// process, or let the relay find the messages itself.
//
// After [ErrDuplicate] the transaction is as it was before that message. After any other error roll
// it back.
func (o *Outbox) Add(ctx context.Context, tx dbtx.Tx, messages ...Message) error {
	if d := tx.Dialect(); d != o.dialect {
		return fmt.Errorf("outbox: the transaction is one of %s, and the outbox is on %s: add in one of the same database", d, o.dialect)
	}
	messages = o.prepareAll(ctx, messages)
	for i := range messages {
		if err := messages[i].checkLimits(o.maxPayload); err != nil {
			return fmt.Errorf("outbox: message %d of %d was not added: %w", i+1, len(messages), err)
		}
	}
	for i := range messages {
		if err := o.addMessage(ctx, tx, messages[i]); err != nil {
			return err
		}
	}
	return nil
}

// prepareAll returns the messages as Options.Prepare wants them. It does not change the caller's.
func (o *Outbox) prepareAll(ctx context.Context, messages []Message) []Message {
	if o.prepare == nil {
		return messages
	}
	messages = slices.Clone(messages)
	for i := range messages {
		m := &messages[i]
		if m.Headers = maps.Clone(m.Headers); m.Headers == nil {
			m.Headers = map[string]string{}
		}
		o.prepare(ctx, m)
	}
	return messages
}

func (o *Outbox) addMessage(ctx context.Context, tx dbtx.Tx, m Message) error {
	if m.ID == "" {
		m.ID = NewID()
	}
	hash, part := m.keyHash()
	payload := m.Payload
	if payload == nil {
		payload = []byte{}
	}
	n, err := tx.Exec(ctx, o.queries.add, []byte(m.ID), part, hash[:], []byte(m.Topic), []byte(m.Key), []byte(m.ContentType), packHeaders(m.Headers), payload)
	if o.dialect == MySQL && sqlkit.ClassOf(err) == sqlkit.UniqueViolation || err == nil && n == 0 {
		return ErrDuplicate
	}
	return o.explainError("add a message", err)
}
