package table

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Call is what a caller asks for: a change of one record. It refers only to memory of its own,
// since a caller that leaves may reuse its memory.
type Call struct {
	Ctx      context.Context // the caller's
	Key      storeapi.StoreKey
	ID       RecordID
	NotAfter time.Time // last time for the commit, on the store's clock; zero: no limit
	Size     int       // about how many bytes it writes
	Request  Request
}

// Request is one kind of call.
type Request interface {
	// Decide returns the next state of the record, and whether it is written; with an error it is
	// not. It has no side effects but on the request, since it may be called several times; the
	// last time counts.
	Decide(found Loaded) (next protocol.Row, write bool, err error)
}

// Knowledge is what is known of a record before a change locks it.
type Knowledge uint8

const (
	// KnowsNothing: the record is read and locked.
	KnowsNothing Knowledge = iota
	// GuessesNone: the key is probably new, and nothing was read. If there is a record, a change
	// that inserts first fails with ErrRecordThere. One that reads first, as a change alone on
	// PostgreSQL does, is decided by what it finds.
	GuessesNone
	// SawNone: a look without a lock has found no record.
	SawNone
	// SawOne: a look without a lock has found a record.
	SawOne
	// WroteLast: the record is as this store has last written it, as far as that is known.
	WroteLast
)

// Change is one try to make a call.
type Change struct {
	*Call
	Ticket
	Knows Knowledge
	Last  protocol.Row // if Knows is WroteLast

	// what the request has decided
	Found   Loaded
	Next    protocol.Row
	Writes  bool
	Refused error
	// Err is nil if the change was made, ErrMakeAlone if it must be made in a transaction of its
	// own, and otherwise says why it was not made.
	Err error
}

// ErrMakeAlone means that a change could not be made together with others. No caller gets it.
var ErrMakeAlone = errors.New("sqlstore: the change must be made alone")

// ErrRecordThere means that a key that was probably new has a record. No caller gets it.
var ErrRecordThere = errors.New("sqlstore: the key has a record")

// Ticket is the place of a call in a queue. Its caller may leave until the call has begun.
type Ticket struct {
	state atomic.Uint32
	Done  chan struct{} // closed when the call was made or has failed
}

// States of a ticket; zero: it waits.
const (
	callBegun  uint32 = iota + 1 // it may be committed
	callerLeft                   // it will not be made
)

// BeginCall reports whether the call is to be made, that is, whether its caller has not left.
func (t *Ticket) BeginCall() bool {
	return t.state.CompareAndSwap(0, callBegun) || !t.HasLeft()
}

// LeaveQueue reports whether the call has not begun. In that case it never will.
func (t *Ticket) LeaveQueue() bool { return t.state.CompareAndSwap(0, callerLeft) }

// HasLeft reports whether the caller has left.
func (t *Ticket) HasLeft() bool { return t.state.Load() == callerLeft }

// BeginChange reports whether the change should be made. If not, c.Err says how the caller's
// context ended.
func (c *Change) BeginChange() bool {
	c.Err = nil
	if err := c.Ctx.Err(); err != nil {
		c.Err = &LockError{Ended: err}
		return false
	}
	return c.BeginCall()
}

// beginChanges marks the changes that are made now, and leaves out those whose callers have left.
// notAfter is the earliest of those that are made; zero: none has one.
func beginChanges(changes []*Change) (begun []*Change, notAfter time.Time) {
	begun = make([]*Change, 0, len(changes))
	for _, c := range changes {
		if !c.BeginChange() {
			continue
		}
		begun = append(begun, c)
		if notAfter.IsZero() || !c.NotAfter.IsZero() && c.NotAfter.Before(notAfter) {
			notAfter = c.NotAfter
		}
	}
	return begun, notAfter
}

// ChangeOne makes a change in a transaction of its own, and waits as long as its caller does.
func (d *Database) ChangeOne(c *Change) error {
	return d.Backend.WriteTables(c.Ctx, c.ID, c.NotAfter, func(ctx context.Context, w sqlkit.Execer) (bool, error) { return d.changeRow(ctx, w, c) })
}

// changeRow reads and locks the record, on databases that lock records, decides, and writes.
//
// If the record is missing and may have been there before, a sweep may have removed it while this
// call waited. The largest removed fence may have been read before that removal, so it is read
// again.
func (d *Database) changeRow(ctx context.Context, w sqlkit.Execer, c *Change) (commit bool, err error) {
	wasThere := c.Knows == GuessesNone || c.Knows == SawOne
	for q := d.Statements.Load(); ; wasThere = true {
		c.Found, err = d.LoadRecord(ctx, w, q.LockRow, c.ID)
		if err == nil && c.Found.Row.State == 0 && wasThere {
			c.Found, err = d.LoadRecord(ctx, w, q.LockRow, c.ID)
		}
		if err != nil {
			return false, err
		}
		if c.Next, c.Writes, c.Refused = c.Request.Decide(c.Found); !c.Writes {
			return false, nil
		}
		if c.Found.Row.State != 0 {
			// MySQL counts no row if nothing has changed, so the count is of no use
			_, err = w.ExecContext(ctx, q.UpdateRow, append(RowArgs(&c.Next), c.ID[:])...)
			return true, err
		}
		r, err := w.ExecContext(ctx, q.InsertRow, InsertArgs(&c.Key, c.ID, &c.Next)...)
		if err != nil {
			return true, err
		}
		if inserted, err := q.HasInserted(r); inserted || err != nil {
			return true, err
		}
		// another call has inserted the record meanwhile
	}
}

// manyRows reads and writes many rows at once on one kind of database.
type manyRows interface {
	// loadMany reads the records of ids with LoadRows or LockRows, and returns what holds for
	// absent ones: floor and clock.
	loadMany(ctx context.Context, w querier, query string, ids []RecordID) (found map[RecordID]Loaded, absent Loaded, err error)
	// writeMany inserts the rows of made, whose records were absent, and overwrites the rows of
	// changed. If TellsInserted, it marks changes of made to be made alone whose record was there.
	// It also marks those of changed that know what this store wrote last, if the record has
	// changed since.
	writeMany(ctx context.Context, w sqlkit.Execer, made, changed []*Change) error
}

// changeRows decides on the changes and writes them.
func (d *Database) changeRows(ctx context.Context, w sqlkit.Execer, m manyRows, changes []*Change) (commit bool, err error) {
	// In the same order everywhere, so that two transactions that lock the same rows do not
	// deadlock.
	slices.SortFunc(changes, func(a, b *Change) int { return strings.Compare(string(a.ID[:]), string(b.ID[:])) })
	ids := make([]RecordID, 0, len(changes))
	for _, c := range changes {
		if d.needsRead(c) {
			ids = append(ids, c.ID)
		}
	}
	if len(ids) == 0 {
		ids = append(ids, RecordID{}) // there is no such record; for the floor and the clock
	}
	records, absent, err := m.loadMany(ctx, w, d.Statements.Load().LockRows, ids)
	if err != nil {
		return false, err
	}
	var made, changed []*Change
	for _, c := range changes {
		found, there := records[c.ID]
		switch {
		case c.Knows == WroteLast:
			found = Loaded{Row: c.Last, Floor: absent.Floor, Now: absent.Now}
		case !there:
			found = absent
			// Another transaction may have locked it, but on SQLite no other call writes.
			if d.needsRead(c) && c.Knows != SawNone && d.Dialect != dbtx.SQLite {
				c.Err = ErrMakeAlone
				continue
			}
		}
		c.Found = found
		switch c.Next, c.Writes, c.Refused = c.Request.Decide(found); {
		case !c.Writes && c.Knows == WroteLast:
			c.Err = ErrMakeAlone // perhaps the record has changed
		case !c.Writes && c.Knows == GuessesNone:
			c.Err = ErrRecordThere // perhaps there is a record
		case !c.Writes:
		case found.Row.State == 0:
			made = append(made, c)
		default:
			changed = append(changed, c)
		}
	}
	if len(made)+len(changed) == 0 {
		return false, nil
	}
	return true, m.writeMany(ctx, w, made, changed)
}

// markRecordThere marks a change whose record was there, although it should have been absent.
func (c *Change) markRecordThere() {
	c.Err = ErrMakeAlone
	if c.Knows == GuessesNone {
		c.Err = ErrRecordThere
	}
}

// needsRead reports whether the record of a change has to be read before it is decided: nothing is
// known of it, or the write would not tell that there is one.
func (d *Database) needsRead(c *Change) bool {
	switch c.Knows {
	case WroteLast, GuessesNone:
		return false
	case SawNone:
		return !d.Statements.Load().TellsInserted
	}
	return true
}

// Lookup is the lookup of one caller.
type Lookup struct {
	ID    RecordID
	Found Loaded
	Err   error         // of the batch
	Done  chan struct{} // closed when Found or Err is set
}

// LookUpOne reads one record without a lock.
func (d *Database) LookUpOne(ctx context.Context, id RecordID) (found Loaded, err error) {
	err = d.Backend.ReadTables(ctx, OneRow, func(ctx context.Context, db sqlkit.Execer) error {
		found, err = d.LoadRecord(ctx, db, d.Statements.Load().LoadRow, id)
		return err
	})
	return found, err
}

// lookUpRows reads the records of many lookups.
func (d *Database) lookUpRows(ctx context.Context, w querier, m manyRows, looks []*Lookup) error {
	first := make(map[RecordID]*Lookup, len(looks))
	ids := make([]RecordID, 0, len(looks))
	for _, l := range looks {
		if first[l.ID] == nil {
			first[l.ID] = l
			ids = append(ids, l.ID)
		}
	}
	found, absent, err := m.loadMany(ctx, w, d.Statements.Load().LoadRows, ids)
	for _, l := range looks {
		var there bool
		if l.Found, there = found[l.ID]; !there {
			l.Found = absent
		}
		if first[l.ID] != l { // each caller has its own memory
			r := &l.Found.Row
			r.Fingerprint, r.Binding, r.Answer.Body = bytes.Clone(r.Fingerprint), bytes.Clone(r.Binding), bytes.Clone(r.Answer.Body)
		}
	}
	return err
}

// Limits of one transaction. A longer one would hold rows, and the one writer of SQLite, for too
// long.
const (
	MostTogether = 128
	MostBytes    = 4 << 20
)
