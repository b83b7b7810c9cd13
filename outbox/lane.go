package outbox

import (
	"context"
	"errors"
	"time"
)

// lane publishes one partition, one batch after the other.
type lane struct {
	*keeper
	hold
	term    *term
	kick    chan struct{}
	halt    chan struct{} // closed: end after the current batch
	stopped bool          // halt is closed; the keeper's mutex guards it
	done    chan struct{}
	idle    time.Duration // how long the last rest was
	pass    pass
}

func newLane(k *keeper, h hold) *lane {
	return &lane{keeper: k, hold: h, term: k.term, kick: make(chan struct{}, 1), halt: make(chan struct{}), done: make(chan struct{})}
}

// stop makes the lane end after its batch. The keeper's mutex is held.
func (l *lane) stop() {
	if !l.stopped {
		l.stopped = true
		close(l.halt)
	}
}

func (l *lane) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

func (l *lane) run() {
	defer signal(l.keeper.ended)
	defer close(l.done)
	for {
		select {
		case <-l.term.ctx.Done():
			return
		case <-l.halt:
			l.giveBack()
			return
		case <-l.kick:
		}
		for first := true; l.goesOn(); first = false {
			more, err := l.batch(first)
			if err != nil {
				signal(l.keeper.again) // another relay has the partition
				return
			}
			if !more {
				break
			}
		}
	}
}

func (l *lane) goesOn() bool {
	select {
	case <-l.halt:
		return false
	case <-l.term.ctx.Done():
		return false
	default:
		return true
	}
}

// giveBack releases the partition to other relays. All published messages are marked by then.
func (l *lane) giveBack() {
	call, cancel := context.WithTimeout(l.base, l.o.Lease/3)
	defer cancel()
	if err := l.table.release(call, l.hold); err != nil {
		// it becomes free when the lease expires, or at the next deal
		l.complain("release a partition", err)
	}
}

const (
	shortestRest = 10 * time.Millisecond
	longestRest  = 2 * time.Second
	longestAway  = 30 * time.Second
)

// rest waits twice as long as the last time, between the shortest and the longest time, or until
// the lane ends.
func (l *lane) rest(longest time.Duration) {
	l.idle = min(max(2*l.idle, shortestRest), longest)
	t := time.NewTimer(jitter(l.idle))
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.halt:
	case <-l.term.ctx.Done():
	}
}

// batch reads, publishes and marks once. more reports that there may be other messages at once. An
// error means that another relay has the partition.
func (l *lane) batch(first bool) (more bool, err error) {
	select {
	case <-l.kick: // this batch sees all that the signal was for
	default:
	}
	messages, last, err := l.read()
	switch {
	case err != nil:
		if l.term.ctx.Err() == nil {
			l.complain("read messages", err)
			l.rest(longestRest)
		}
		return false, nil
	case len(messages) == 0 && l.pass.after > 0: // messages before it may be due by now
		l.pass = pass{}
		return true, nil
	case len(messages) == 0:
		l.pass = pass{}
		if first { // all due messages are held up, and each look costs the database
			l.rest(longestRest)
		}
		return false, nil
	}
	l.moved.Add(1)
	began := time.Now()
	s := l.publish(messages)
	took := time.Since(began)
	l.pass.came(messages, last, len(s.published) == len(messages))
	if err := l.mark(s.outcome); err != nil {
		return false, err
	}
	if l.o.OnBatch != nil {
		l.o.OnBatch(context.WithoutCancel(l.term.ctx), s.told(len(messages), took))
	}
	if s.away {
		l.rest(longestAway)
		return true, nil
	}
	l.idle = 0
	return true, nil
}

// read returns the next batch. last reports that nothing comes after it.
func (l *lane) read() (batch []Outgoing, last bool, err error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.term.ctx.Done():
		return nil, false, l.term.ctx.Err()
	}
	defer func() { <-l.slots }()
	call, cancel := context.WithTimeout(l.term.ctx, l.o.Lease)
	defer cancel()
	if l.pass.over() {
		if err := l.pass.begin(call, l.table, l.hold, l.o.SkipDead); err != nil {
			return nil, false, err
		}
	}
	return l.table.take(call, l.hold, l.o.Batch, l.o.SkipDead, &l.pass)
}

// mark stores the outcome of a batch. It retries while the lease is held, since unmarked messages
// would be published again.
func (l *lane) mark(out outcome) error {
	if len(out.published)+len(out.failed) == 0 {
		return nil
	}
	for wait := shortestRest; ; wait = min(2*wait, longestRest) {
		l.slots <- struct{}{}
		call, cancel := context.WithTimeout(l.base, l.o.Lease/3)
		err := l.table.mark(call, l.hold, out)
		cancel()
		<-l.slots
		if err == nil || errors.Is(err, errLost) {
			return err
		}
		l.complain("mark what was published", err)
		t := time.NewTimer(jitter(wait))
		select {
		case <-t.C:
		case <-l.term.ctx.Done():
			t.Stop()
			return errLost
		}
	}
}
