package outbox

import (
	"context"
	"errors"
	"time"
)

// lane publishes one partition, one batch after the other.
type lane struct {
	*relayRun
	heldPartition
	term     *leaseTerm
	woken    chan struct{}
	stopping chan struct{} // closed: end after the current batch
	stopped  bool          // stopping is closed; the relayRun's mutex guards it
	done     chan struct{}
	lastWait time.Duration // how long the last rest was
	pass     partitionPass
}

func newLane(k *relayRun, h heldPartition) *lane {
	return &lane{relayRun: k, heldPartition: h, term: k.term, woken: make(chan struct{}, 1), stopping: make(chan struct{}), done: make(chan struct{})}
}

// stopAfterBatch makes the lane end after its batch. The relayRun's mutex is held.
func (l *lane) stopAfterBatch() {
	if !l.stopped {
		l.stopped = true
		close(l.stopping)
	}
}

func (l *lane) isDone() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

func (l *lane) run() {
	defer signalOnce(l.relayRun.laneEnded)
	defer close(l.done)
	for {
		select {
		case <-l.term.ctx.Done():
			return
		case <-l.stopping:
			l.releasePartition()
			return
		case <-l.woken:
		}
		for first := true; l.mayContinue(); first = false {
			more, err := l.publishBatch(first)
			if err != nil {
				signalOnce(l.relayRun.dealNow) // another relay has the partition
				return
			}
			if !more {
				break
			}
		}
	}
}

func (l *lane) mayContinue() bool {
	select {
	case <-l.stopping:
		return false
	case <-l.term.ctx.Done():
		return false
	default:
		return true
	}
}

// releasePartition releases the partition to other relays. All published messages are marked by
// then.
func (l *lane) releasePartition() {
	call, cancel := context.WithTimeout(l.baseCtx, l.o.Lease/3)
	defer cancel()
	if err := l.table.releasePartition(call, l.heldPartition); err != nil {
		// it becomes free when the lease expires, or at the next deal
		l.logProblem("release a partition", err)
	}
}

const (
	shortestWait      = 10 * time.Millisecond
	longestWait       = 2 * time.Second
	longestBrokerWait = 30 * time.Second
)

// waitLonger waits twice as long as the last time, between the shortest and the longest time, or
// until the lane ends.
func (l *lane) waitLonger(longest time.Duration) {
	l.lastWait = min(max(2*l.lastWait, shortestWait), longest)
	t := time.NewTimer(withJitter(l.lastWait))
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.stopping:
	case <-l.term.ctx.Done():
	}
}

// publishBatch reads, publishes and marks once. more reports that there may be other messages at
// once. An error means that another relay has the partition.
func (l *lane) publishBatch(first bool) (more bool, err error) {
	select {
	case <-l.woken: // this batch sees all that the signal was for
	default:
	}
	messages, last, err := l.readBatch()
	switch {
	case err != nil:
		if l.term.ctx.Err() == nil {
			l.logProblem("read messages", err)
			l.waitLonger(longestWait)
		}
		return false, nil
	case len(messages) == 0 && l.pass.after > 0: // messages before it may be due by now
		l.pass = partitionPass{}
		return true, nil
	case len(messages) == 0:
		l.pass = partitionPass{}
		if first { // all due messages are held up, and each look costs the database
			l.waitLonger(longestWait)
		}
		return false, nil
	}
	l.batchesMoved.Add(1)
	began := time.Now()
	s := l.publish(messages)
	took := time.Since(began)
	l.pass.recordBatch(messages, last, len(s.published) == len(messages))
	if err := l.markOutcome(s.markedOutcome); err != nil {
		return false, err
	}
	if l.o.OnBatch != nil {
		l.o.OnBatch(context.WithoutCancel(l.term.ctx), s.batchReport(len(messages), took))
	}
	if s.brokerAway {
		l.waitLonger(longestBrokerWait)
		return true, nil
	}
	l.lastWait = 0
	return true, nil
}

// readBatch returns the next batch. last reports that nothing comes after it.
func (l *lane) readBatch() (batch []Outgoing, last bool, err error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.term.ctx.Done():
		return nil, false, l.term.ctx.Err()
	}
	defer func() { <-l.slots }()
	call, cancel := context.WithTimeout(l.term.ctx, l.o.Lease)
	defer cancel()
	if l.pass.isOver() {
		if err := l.pass.restart(call, l.table, l.heldPartition, l.o.SkipDead); err != nil {
			return nil, false, err
		}
	}
	return l.table.readBatch(call, l.heldPartition, l.o.Batch, l.o.SkipDead, &l.pass)
}

// markOutcome stores the outcome of a batch. It retries while the lease is held, since unmarked
// messages would be published again.
func (l *lane) markOutcome(out markedOutcome) error {
	if len(out.published)+len(out.failed) == 0 {
		return nil
	}
	for wait := shortestWait; ; wait = min(2*wait, longestWait) {
		l.slots <- struct{}{}
		call, cancel := context.WithTimeout(l.baseCtx, l.o.Lease/3)
		err := l.table.markOutcome(call, l.heldPartition, out)
		cancel()
		<-l.slots
		if err == nil || errors.Is(err, errPartitionLost) {
			return err
		}
		l.logProblem("mark what was published", err)
		t := time.NewTimer(withJitter(wait))
		select {
		case <-t.C:
		case <-l.term.ctx.Done():
			t.Stop()
			return errPartitionLost
		}
	}
}
