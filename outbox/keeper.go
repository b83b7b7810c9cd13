package outbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// keeper is one call of Run. It keeps the lease, and a lane for each partition.
type keeper struct {
	*Relay
	base  context.Context // does not end with Run's
	moved atomic.Int64    // batches with messages
	again chan struct{}   // deal at once
	ended chan struct{}   // a lane has ended

	mu    sync.Mutex
	term  *term
	lanes map[int]*lane
	dealt time.Time // last deal

	owner      ownerID // of the term, or of the next one
	registered bool    // the owner has a lease, as far as is known
}

// term is the time of a lease. Its context ends one fifth of the lease before the database gives
// the partitions to others.
type term struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

var (
	errLapsed = errors.New("outbox: the lease could not be extended in time: the database did not answer, or this process was stopped")
	errDrain  = errors.New("outbox: the relay was told to end")
)

// run deals until ctx ends.
func (k *keeper) run(ctx context.Context) error {
	for ctx.Err() == nil {
		t := time.NewTimer(k.tick())
		select {
		case <-t.C:
		case <-k.again:
		case <-k.ended: // another lane may take its place
		case <-ctx.Done():
		}
		t.Stop()
	}
	return k.stop()
}

// tick renews the lease and claims partitions. It returns when to tick again.
func (k *keeper) tick() time.Duration {
	soon := jitter(k.o.Lease / 15)
	if k.registered {
		alive, err := k.renew()
		if err != nil {
			k.complain("renew its lease", err)
			return soon
		}
		if !alive {
			k.lose()
		}
	}
	first := !k.registered
	if k.owner == (ownerID{}) {
		_, _ = rand.Read(k.owner[:]) // never fails
	}
	call, cancel := context.WithTimeout(k.base, k.o.Lease/3)
	defer cancel()
	before := time.Now()
	mine, share, err := k.table.deal(call, k.owner, k.o.Lease, first)
	switch {
	case err != nil:
		k.complain("take up partitions", err)
		return soon
	case share == 0:
		k.lose()
		return 0
	case first:
		k.registered = true
		k.extend(before)
	}
	k.assign(mine, share)
	return jitter(k.o.Lease / 3)
}

func (k *keeper) renew() (alive bool, err error) {
	call, cancel := context.WithTimeout(k.base, k.o.Lease/3)
	defer cancel()
	before := time.Now()
	alive, err = k.table.renew(call, k.owner, k.o.Lease)
	if alive {
		k.extend(before)
	}
	return alive, err
}

// extend starts the lease at from, which is not later than the database's start of it. If the last
// term has expired here and the database has given the partitions to no one else, lanes begin
// again.
func (k *keeper) extend(from time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	left := time.Until(from.Add(k.o.Lease - k.o.Lease/5))
	if k.term != nil && k.term.timer.Stop() {
		k.term.timer.Reset(left)
		return
	}
	if left <= 0 {
		return
	}
	t := new(term)
	t.ctx, t.cancel = context.WithCancelCause(k.base)
	t.timer = time.AfterFunc(left, func() {
		t.cancel(errLapsed)
		signal(k.again)
	})
	k.term = t
}

// lose ends the term: other relays have the partitions by now. The next term has another owner.
func (k *keeper) lose() {
	k.registered, k.owner = false, ownerID{}
	k.logger.Warn("outbox: the relay has lost its lease, and begins anew; its database did not answer in time, or the process was stopped for a while")
	k.endTerm(errLost)
}

func (k *keeper) endTerm(cause error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.term != nil {
		k.term.timer.Stop()
		k.term.cancel(cause)
		k.term = nil
	}
}

// assign starts a lane for each partition, up to the share. Lanes beyond the share release their
// partitions after their batch.
func (k *keeper) assign(mine []hold, share int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dealt = time.Now()
	holds := map[hold]bool{}
	for _, h := range mine {
		holds[h] = true
	}
	active := 0
	for part, l := range k.lanes {
		switch {
		case l.over():
			delete(k.lanes, part)
		case !holds[l.hold] || active >= share:
			l.stop()
		case l.term == k.term && !l.stopped:
			active++
		}
	}
	if k.term == nil || k.term.ctx.Err() != nil {
		return
	}
	for _, h := range mine {
		if k.lanes[h.part] == nil { // else its lane runs, or an earlier one has not ended yet
			l := newLane(k, h)
			k.lanes[h.part] = l
			if active >= share {
				l.stop()
			}
			active++
			go l.run()
		}
	}
}

// kick wakes the lanes that have work, and deals if partitions are free.
func (k *keeper) kick(all []partition) {
	k.mu.Lock()
	defer k.mu.Unlock()
	free := false
	for _, p := range all {
		free = free || p.free
		if l := k.lanes[p.part]; l != nil && p.work {
			signal(l.kick)
		}
	}
	if free && time.Since(k.dealt) > k.o.Lease/60 {
		signal(k.again)
	}
}

// stop ends the lanes after their running batches, then the lease. It keeps the lease until then.
func (k *keeper) stop() error {
	k.mu.Lock()
	for _, l := range k.lanes {
		l.stop()
	}
	k.mu.Unlock()
	end := time.NewTimer(k.o.Drain)
	defer end.Stop()
	renew := time.NewTicker(k.o.Lease / 3)
	defer renew.Stop()
	for forced := false; k.left() > 0; {
		select {
		case <-k.ended:
		case <-renew.C:
			alive, err := k.renew()
			if err != nil {
				k.complain("renew its lease", err)
			} else if !alive {
				k.endTerm(errLost)
			}
		case <-end.C:
			if forced {
				return fmt.Errorf("outbox: in %d partitions Publish has not returned, though its context has ended: what it does may go on, "+
					"and other relays wait for their lease to pass", k.left())
			}
			forced = true
			end.Reset(max(time.Second, k.o.Lease/3))
			k.endTerm(errDrain)
		}
	}
	k.endTerm(errDrain)
	if k.owner == (ownerID{}) {
		return nil
	}
	call, cancel := context.WithTimeout(k.base, k.o.Lease/3)
	defer cancel()
	if err := k.table.leave(call, k.owner); err != nil {
		k.complain("end its lease", err)
	}
	return nil
}

// left returns how many lanes have not ended.
func (k *keeper) left() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.lanes {
		if !l.over() {
			n++
		}
	}
	return n
}

// signal sends to c, unless a signal is pending already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
