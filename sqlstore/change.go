package sqlstore

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
	"github.com/retrysafe/retrysafe/storeapi"
)

// call is what a caller asks for: a change of one record. It refers only to memory of its own,
// since a caller that leaves may reuse its memory.
type call struct {
	ctx      context.Context // the caller's
	key      storeapi.StoreKey
	id       recordID
	notAfter time.Time // last time for the commit, on the store's clock; zero: no limit
	size     int       // about how many bytes it writes
	request  request
}

// request is one kind of call.
type request interface {
	// decide returns the next state of the record. It has no side effects but on the request, since
	// it may be called several times; the last time counts.
	decide(found loaded) (next protocol.Row, write bool, err error)
}

// knowledge is what is known of a record before a change locks it.
type knowledge uint8

const (
	// knowsNothing: the record is read and locked.
	knowsNothing knowledge = iota
	// guessesNone: the key is probably new, and nothing was read. If there is a record, the change
	// fails with errRecordThere.
	guessesNone
	// sawNone: a look without a lock has found no record.
	sawNone
	// sawOne: a look without a lock has found a record.
	sawOne
	// wroteLast: the record is as this store has last written it, as far as that is known.
	wroteLast
)

// change is one try to make a call.
type change struct {
	*call
	ticket
	knows knowledge
	last  protocol.Row // if knows is wroteLast

	decision
	// err is nil if the change was made, errMakeAlone if it must be made in a transaction of its
	// own, and otherwise says why it was not made.
	err error
}

// decision is what a request has decided on a record.
type decision struct {
	found   loaded
	next    protocol.Row
	writes  bool
	refused error
}

// errMakeAlone means that a change could not be made together with others. No caller gets it.
var errMakeAlone = errors.New("sqlstore: the change must be made alone")

// errRecordThere means that a key that was probably new has a record. No caller gets it.
var errRecordThere = errors.New("sqlstore: the key has a record")

// hasFailed reports whether the change was not made and never will be.
func (c *change) hasFailed() bool { return c.err != nil && !c.mustBeAlone() }

// mustBeAlone reports whether the change has to be made in a transaction of its own.
func (c *change) mustBeAlone() bool { return c.err == errMakeAlone } //nolint:errorlint // nothing is wrapped around it

// ticket is the place of a call in a queue. Its caller may leave until the call has begun.
type ticket struct{ state atomic.Uint32 }

// States of a ticket; zero: it waits.
const (
	callBegun  uint32 = iota + 1 // it may be committed
	callerLeft                   // it will not be made
)

// beginCall reports whether the call is to be made, that is, whether its caller has not left.
func (t *ticket) beginCall() bool {
	return t.state.CompareAndSwap(0, callBegun) || t.state.Load() == callBegun
}

// leaveQueue reports whether the call has not begun. In that case it never will.
func (t *ticket) leaveQueue() bool { return t.state.CompareAndSwap(0, callerLeft) }

// hasLeft reports whether the caller has left.
func (t *ticket) hasLeft() bool { return t.state.Load() == callerLeft }

// beginChange reports whether the change should be made. If not, c.err says how the caller's
// context ended.
func (c *change) beginChange() bool {
	c.err = nil
	if err := c.ctx.Err(); err != nil {
		c.err = &lockError{ended: err}
		return false
	}
	return c.beginCall()
}

// beginChanges marks the changes that are made now, and leaves out those whose callers have left.
func beginChanges(changes []*change) []*change {
	all := make([]*change, 0, len(changes))
	for _, c := range changes {
		if c.beginChange() {
			all = append(all, c)
		}
	}
	return all
}

// earliestEnd returns the earliest notAfter of the changes; zero: none has one.
func earliestEnd(changes []*change) (first time.Time) {
	for _, c := range changes {
		if first.IsZero() || !c.notAfter.IsZero() && c.notAfter.Before(first) {
			first = c.notAfter
		}
	}
	return first
}

// decideOn decides on a record that was read under a lock.
func (c *change) decideOn(found loaded) {
	c.found = found
	c.next, c.writes, c.refused = c.request.decide(found)
	c.writes = c.writes && c.refused == nil
}

// changeRow reads the record and the clock while this call is the writer, decides, and writes.
func (d *database) changeRow(ctx context.Context, w sqlkit.Execer, c *change) (commit bool, err error) {
	wasThere := c.knows == guessesNone || c.knows == sawOne
	for {
		found, err := d.loadToWrite(ctx, w, c.id, wasThere)
		if err != nil {
			return false, err
		}
		if c.decideOn(found); !c.writes {
			return false, nil
		}
		if done, err := d.putRow(ctx, w, c); done || err != nil {
			return true, err
		}
		wasThere = true // another call has inserted the record meanwhile
	}
}

// manyRows reads and writes many rows at once on one kind of database.
type manyRows interface {
	// loadMany reads the records of ids that are available, and returns what holds for absent ones:
	// version, floor and clock.
	loadMany(ctx context.Context, w querier, ids []recordID) (found map[recordID]loaded, absent loaded, err error)
	// writeMany inserts the rows of made, whose records were absent, and overwrites the rows of
	// changed. If tellsInserted, it marks changes of made to be made alone whose record was there.
	// It also marks those of changed that know what this store wrote last, if the record has
	// changed since.
	writeMany(ctx context.Context, w sqlkit.Execer, made, changed []*change) error
	// tellsInserted reports whether a change whose earlier look has found no record, or whose key
	// is probably new, needs no look: writeMany can tell which records were there.
	tellsInserted() bool
	// surelyAbsent reports whether a record that was not found is certainly absent, so that the
	// change can be decided.
	surelyAbsent(c *change) bool
}

// changeRows decides on the changes and writes them.
func changeRows(ctx context.Context, w sqlkit.Execer, m manyRows, changes []*change) (commit bool, err error) {
	// In the same order everywhere, so that two transactions that lock the same rows do not
	// deadlock.
	slices.SortFunc(changes, func(a, b *change) int { return strings.Compare(string(a.id[:]), string(b.id[:])) })
	ids := make([]recordID, 0, len(changes))
	for _, c := range changes {
		if c.needsLook(m) {
			ids = append(ids, c.id)
		}
	}
	if len(ids) == 0 {
		ids = append(ids, recordID{}) // there is no such record; for the floor and the clock
	}
	records, absent, err := m.loadMany(ctx, w, ids)
	if err != nil {
		return false, err
	}
	var made, changed []*change
	for _, c := range changes {
		found, there := records[c.id]
		switch {
		case c.knows == wroteLast:
			found = loaded{row: c.last, floor: absent.floor, now: absent.now}
		case !there:
			found = absent
			if c.needsLook(m) && !m.surelyAbsent(c) {
				c.err = errMakeAlone
				continue
			}
		}
		switch c.decideOn(found); {
		case !c.writes && c.knows == wroteLast:
			c.err = errMakeAlone // perhaps the record has changed
		case !c.writes && c.knows == guessesNone:
			c.err = errRecordThere // perhaps there is a record
		case !c.writes:
		case found.row.State == 0:
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

// metRecord marks a change whose record was there, although it should have been absent.
func (c *change) metRecord() {
	c.err = errMakeAlone
	if c.knows == guessesNone {
		c.err = errRecordThere
	}
}

// needsLook reports whether the record of a change has to be read before it is decided: nothing is
// known of it, or the write would not tell that there is one.
func (c *change) needsLook(m manyRows) bool {
	switch c.knows {
	case wroteLast, guessesNone:
		return false
	case sawNone:
		return !m.tellsInserted()
	}
	return true
}

// look is the lookup of one caller.
type look struct {
	id    recordID
	found loaded
}

// lookAtRows reads the records of many lookups.
func lookAtRows(ctx context.Context, w querier, m manyRows, looks []*look) error {
	first := make(map[recordID]*look, len(looks))
	ids := make([]recordID, 0, len(looks))
	for _, l := range looks {
		if first[l.id] == nil {
			first[l.id] = l
			ids = append(ids, l.id)
		}
	}
	found, absent, err := m.loadMany(ctx, w, ids)
	for _, l := range looks {
		var there bool
		if l.found, there = found[l.id]; !there {
			l.found = absent
		}
		if first[l.id] != l { // each caller has its own memory
			r := &l.found.row
			r.Fingerprint, r.Binding, r.Answer.Body = bytes.Clone(r.Fingerprint), bytes.Clone(r.Binding), bytes.Clone(r.Answer.Body)
		}
	}
	return err
}

// Limits of one transaction. A longer one would hold rows, and the one writer of SQLite, for too
// long.
const (
	mostTogether = 128
	mostBytes    = 4 << 20
)
