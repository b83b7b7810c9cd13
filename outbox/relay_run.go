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

// relayRun is one call of Run. It keeps the lease, and a lane for each partition.
type relayRun struct {
	*Relay
	baseCtx      context.Context // does not end with Run's
	batchesMoved atomic.Int64    // batches with messages
	dealNow      chan struct{}   // deal at once
	laneEnded    chan struct{}   // a lane has ended

	mu       sync.Mutex
	term     *leaseTerm
	lanes    map[int]*lane
	lastDeal time.Time // last deal

	owner      ownerID // of the term, or of the next one
	registered bool    // the owner has a lease, as far as is known
}

// leaseTerm is the time of a lease. Its context ends one fifth of the lease before the database
// gives the partitions to others.
type leaseTerm struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

var (
	errLapsed = errors.New("outbox: the lease could not be extended in time: the database did not answer, or this process was stopped")
	errDrain  = errors.New("outbox: the relay was asked to end")
)

// run deals until ctx ends.
func (k *relayRun) run(ctx context.Context) error {
	for ctx.Err() == nil {
		t := time.NewTimer(k.renewAndDeal())
		select {
		case <-t.C:
		case <-k.dealNow:
		case <-k.laneEnded: // another lane may take its place
		case <-ctx.Done():
		}
		t.Stop()
	}
	return k.stopLanes()
}

// renewAndDeal renews the lease and claims partitions. It returns when to do so again.
func (k *relayRun) renewAndDeal() time.Duration {
	soon := withJitter(k.o.Lease / 15)
	if k.registered {
		alive, err := k.renewLease()
		if err != nil {
			k.logProblem("renew its lease", err)
			return soon
		}
		if !alive {
			k.loseTerm()
		}
	}
	first := !k.registered
	if k.owner == (ownerID{}) {
		_, _ = rand.Read(k.owner[:]) // never fails
	}
	call, cancel := context.WithTimeout(k.baseCtx, k.o.Lease/3)
	defer cancel()
	before := time.Now()
	mine, share, err := k.table.dealPartitions(call, k.owner, k.o.Lease, first)
	switch {
	case err != nil:
		k.logProblem("take up partitions", err)
		return soon
	case share == 0:
		k.loseTerm()
		return 0
	case first:
		k.registered = true
		k.extendTerm(before)
	}
	k.startLanes(mine, share)
	return withJitter(k.o.Lease / 3)
}

func (k *relayRun) renewLease() (alive bool, err error) {
	call, cancel := context.WithTimeout(k.baseCtx, k.o.Lease/3)
	defer cancel()
	before := time.Now()
	alive, err = k.table.renewLease(call, k.owner, k.o.Lease)
	if alive {
		k.extendTerm(before)
	}
	return alive, err
}

// extendTerm starts the lease at from, which is not later than the database's start of it. If the
// last term has expired here and the database has given the partitions to no one else, lanes begin
// again.
func (k *relayRun) extendTerm(from time.Time) {
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
	t := new(leaseTerm)
	t.ctx, t.cancel = context.WithCancelCause(k.baseCtx)
	t.timer = time.AfterFunc(left, func() {
		t.cancel(errLapsed)
		signalOnce(k.dealNow)
	})
	k.term = t
}

// loseTerm ends the term: other relays have the partitions by now. The next term has another owner.
func (k *relayRun) loseTerm() {
	k.registered, k.owner = false, ownerID{}
	k.logger.Warn("outbox: the relay has lost its lease, and begins again; its database did not answer in time, or the process was stopped for a while")
	k.endTerm(errPartitionLost)
}

func (k *relayRun) endTerm(cause error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.term != nil {
		k.term.timer.Stop()
		k.term.cancel(cause)
		k.term = nil
	}
}

// startLanes starts a lane for each partition, up to the share. Lanes beyond the share release
// their partitions after their batch.
func (k *relayRun) startLanes(mine []heldPartition, share int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lastDeal = time.Now()
	holds := map[heldPartition]bool{}
	for _, h := range mine {
		holds[h] = true
	}
	active := 0
	for part, l := range k.lanes {
		switch {
		case l.isDone():
			delete(k.lanes, part)
		case !holds[l.heldPartition] || active >= share:
			l.stopAfterBatch()
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
				l.stopAfterBatch()
			}
			active++
			go l.run()
		}
	}
}

// wakeLanes wakes the lanes that have work, and deals if partitions are free.
func (k *relayRun) wakeLanes(all []partitionState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	free := false
	for _, p := range all {
		free = free || p.free
		if l := k.lanes[p.part]; l != nil && p.hasWork {
			signalOnce(l.woken)
		}
	}
	if free && time.Since(k.lastDeal) > k.o.Lease/60 {
		signalOnce(k.dealNow)
	}
}

// stopLanes ends the lanes after their running batches, then the lease. It keeps the lease until
// then.
func (k *relayRun) stopLanes() error {
	k.mu.Lock()
	for _, l := range k.lanes {
		l.stopAfterBatch()
	}
	k.mu.Unlock()
	end := time.NewTimer(k.o.Drain)
	defer end.Stop()
	renew := time.NewTicker(k.o.Lease / 3)
	defer renew.Stop()
	for forced := false; k.runningLanes() > 0; {
		select {
		case <-k.laneEnded:
		case <-renew.C:
			alive, err := k.renewLease()
			if err != nil {
				k.logProblem("renew its lease", err)
			} else if !alive {
				k.endTerm(errPartitionLost)
			}
		case <-end.C:
			if forced {
				return fmt.Errorf("outbox: in %d partitions Publish has not returned, though its context has ended: what it does may go on, "+
					"and other relays wait for their lease to pass", k.runningLanes())
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
	call, cancel := context.WithTimeout(k.baseCtx, k.o.Lease/3)
	defer cancel()
	if err := k.table.endLease(call, k.owner); err != nil {
		k.logProblem("end its lease", err)
	}
	return nil
}

// runningLanes returns how many lanes have not ended.
func (k *relayRun) runningLanes() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.lanes {
		if !l.isDone() {
			n++
		}
	}
	return n
}

// signalOnce sends to c, unless a signal is pending already.
func signalOnce(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
