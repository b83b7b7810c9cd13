package sqlstore

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// many reads and writes many rows at once on one kind of database.
type many interface {
	// loadMany reads the records of ids that are available, and returns what holds for absent ones:
	// version, floor and clock.
	loadMany(ctx context.Context, w querier, ids []recordID) (found map[recordID]loaded, absent loaded, err error)
	// writeMany inserts the rows of made, whose records were absent, and overwrites the rows of
	// changed. If insertsFirst, it marks changes of made to be made alone whose record was there.
	// It also marks those of changed that have a last record, if the record has changed since.
	writeMany(ctx context.Context, w sqlkit.Execer, made, changed []*change) error
	// insertsFirst reports whether a change whose earlier look has found no record, or whose key is
	// probably new, needs no look: writeMany can tell which records were there.
	insertsFirst() bool
	// surely reports whether a record that was not found is certainly absent, so that the change
	// can be decided.
	surely(c *change) bool
}

// changeAll decides on the changes and writes them.
func changeAll(ctx context.Context, w sqlkit.Execer, m many, changes []*change) (commit bool, err error) {
	// In the same order everywhere, so that two transactions that lock the same rows do not
	// deadlock.
	slices.SortFunc(changes, func(a, b *change) int { return strings.Compare(string(a.id[:]), string(b.id[:])) })
	ids := make([]recordID, 0, len(changes))
	for _, c := range changes {
		if c.looks(m) {
			ids = append(ids, c.id)
		}
	}
	if len(ids) == 0 {
		ids = append(ids, recordID{}) // there is no such record; for the floor and the clock
	}
	found, absent, err := m.loadMany(ctx, w, ids)
	if err != nil {
		return false, err
	}
	var made, changed []*change
	for _, c := range changes {
		l, there := found[c.id]
		switch {
		case c.last != nil:
			l = loaded{row: *c.last, floor: absent.floor, now: absent.now}
		case !there:
			l = absent
			if c.alone = c.looks(m) && !m.surely(c); c.alone {
				continue
			}
		}
		switch c.settle(l); {
		case !c.writes && c.last != nil:
			c.alone = true // perhaps the record has changed
		case !c.writes && c.first:
			c.err = errMet // perhaps there is a record
		case !c.writes:
		case l.row.State == 0:
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

// met marks a change whose record was there, although it should have been absent.
func (c *change) met() {
	if c.first {
		c.err = errMet
	} else {
		c.alone = true
	}
}

// looks reports whether the record of a change has to be read before it is decided: nothing is
// known of it, or the write would not tell that there is one.
func (c *change) looks(m many) bool {
	return c.last == nil && !c.first && (!m.insertsFirst() || !c.sawNone())
}

// sawNone reports whether an earlier look has found no record.
func (c *change) sawNone() bool { return c.looked && c.seen.row.State == 0 }

// begin marks the changes that are made now, and leaves out those whose callers have left.
func begin(changes []*change) []*change {
	all := make([]*change, 0, len(changes))
	for _, c := range changes {
		if c.alone, c.err = false, nil; c.begin() {
			all = append(all, c)
		}
	}
	return all
}

// earliest returns the earliest notAfter of the changes; zero: none has one.
func earliest(changes []*change) (first time.Time) {
	for _, c := range changes {
		if first.IsZero() || !c.notAfter.IsZero() && c.notAfter.Before(first) {
			first = c.notAfter
		}
	}
	return first
}

// seeMany reads the records of many lookups.
func seeMany(ctx context.Context, w querier, m many, of []*sight) error {
	first := make(map[recordID]*sight, len(of))
	ids := make([]recordID, 0, len(of))
	for _, k := range of {
		if first[k.id] == nil {
			first[k.id] = k
			ids = append(ids, k.id)
		}
	}
	found, absent, err := m.loadMany(ctx, w, ids)
	for _, k := range of {
		var there bool
		if k.l, there = found[k.id]; !there {
			k.l = absent
		}
		if first[k.id] != k { // each caller has its own memory
			r := &k.l.row
			r.Fingerprint, r.Binding, r.Answer.Body = bytes.Clone(r.Fingerprint), bytes.Clone(r.Binding), bytes.Clone(r.Answer.Body)
		}
	}
	return err
}

// sight is the lookup of one caller.
type sight struct {
	id   recordID
	l    loaded
	err  error
	done chan struct{}
}

// Limits of one transaction. A longer one would hold rows, and the one writer of SQLite, for too
// long.
const (
	mostTogether = 128
	mostBytes    = 4 << 20
)
