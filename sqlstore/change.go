package sqlstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/storeapi"
)

// decision returns the next state of a record. It has no side effects, since it may be called
// several times.
type decision func(cur protocol.Row, now protocol.Micros, floor storeapi.Fence) (next protocol.Row, write bool, err error)

// change is a change that a caller asks for. decide must refer only to memory of its own, since a
// caller that leaves may reuse its memory.
type change struct {
	db       *database
	ctx      context.Context // the caller's
	key      storeapi.StoreKey
	id       recordID
	notAfter time.Time // last time for the commit, on the store's clock; zero: no limit
	size     int       // about how many bytes it writes
	decide   decision
	looked   bool   // seen was read
	seen     loaded // the record before, read without a lock
	// first means that the key is probably new: nothing was read, and if there is a record, the
	// change fails with errMet.
	first bool
	// last is the record as this store has last written it; nil: that is unknown.
	last *protocol.Row

	l       loaded // what decide was called with
	next    protocol.Row
	writes  bool
	decided error

	state atomic.Uint32
	alone bool // could not be made together with others
	err   error
	done  chan struct{}
}

// States of a change in a group.
const (
	begun uint32 = iota + 1 // may be committed
	left                    // its caller has left, and it will not be made
)

// begin reports whether the change should be made. If not, c.err says how the caller's context
// ended.
func (c *change) begin() bool {
	if err := c.ctx.Err(); err != nil {
		c.err = &lockError{ended: err, text: c.db.waits}
		return false
	}
	return c.state.CompareAndSwap(0, begun) || c.state.Load() == begun
}

// leave reports whether the change has not begun. In that case it never will.
func (c *change) leave() bool { return c.state.CompareAndSwap(0, left) }

// settle decides on a record that was read under a lock.
func (c *change) settle(l loaded) {
	c.l = l
	c.next, c.writes, c.decided = c.decide(l.row, l.now, l.floor)
	c.writes = c.writes && c.decided == nil
}

// apply reads the record and the clock while this call is the writer, decides, and writes.
func (c *change) apply(ctx context.Context, w sqlkit.Execer) (commit bool, err error) {
	wasThere := c.first || c.seen.row.State != 0
	for {
		l, err := c.db.loadToWrite(ctx, w, c.id, wasThere)
		if err != nil {
			return false, err
		}
		if c.settle(l); !c.writes {
			return false, nil
		}
		if done, err := c.db.put(ctx, w, &c.key, c.id, &l, &c.next); done || err != nil {
			return true, err
		}
		wasThere = true // another call has inserted the record meanwhile
	}
}

// args returns the columns of inserted.
func (c *change) args() []any { return insertArgs(&c.key, c.id, &c.next) }

// errMet means that a key that was probably new has a record. No caller gets it.
var errMet = errors.New("sqlstore: the key has a record")

// usualLease is used for a record that does not tell its lease.
const usualLease = 30 * time.Second
