package sqlstore

import (
	"errors"
	"runtime"
	"sync"
	"time"
)

// group commits the changes of many callers in one transaction: those that came while the last one
// was under way are the next. There is no timer, and a lone call waits for nobody. Databases do the
// same with their logs (DeWitt et al., Implementation Techniques for Main Memory Database Systems,
// 1984).
//
// Of one key there is one change at a time. Heartbeats have a queue of their own, so that no lease
// waits behind claims.
type group struct {
	store *Store
	lanes int // transactions of one queue at a time

	mu       sync.Mutex
	queues   [2]queue
	inFlight map[recordID]struct{}
	solos    []*change // that are to be made alone
	solo     int       // are being made so
}

// queue are the changes that wait, in the order in which they came.
type queue struct {
	waiting []*change
	busy    int // lanes
}

// line is the place of a queue.
type line uint8

const (
	claimsAndEnds line = iota
	heartbeats
)

// The most of one transaction. What takes longer keeps rows, and the one writer of SQLite, for too
// long.
const (
	mostTogether = 128
	mostBytes    = 4 << 20
)

func newGroup(s *Store, lanes int) *group {
	return &group{store: s, lanes: lanes, inFlight: make(map[recordID]struct{})}
}

// do makes a change, together with others. wait bounds how long it stands in line. What has begun
// is seen to its end, though no caller waits longer than its own context for that.
func (g *group) do(wait patience, l line, c *change) error {
	g.mu.Lock()
	g.queues[l].waiting = append(g.queues[l].waiting, c)
	g.start()
	g.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	case <-wait.Done():
	}
	if c.leave() {
		g.drop(l, c)
		return &lockError{ended: wait.caller.Err(), after: wait.limit, text: g.store.waits}
	}
	var late <-chan time.Time
	if !c.notAfter.IsZero() {
		// by then most are told more than that nobody knows
		t := time.NewTimer(c.notAfter.Sub(c.store.clock()) + slack)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-c.done:
		return c.err
	case <-wait.caller.Done():
		return &unknownError{wait.caller.Err()}
	case <-late:
		return &unknownError{errNoAnswerInTime}
	}
}

// errNoAnswerInTime: the time of a call has passed that it gave itself.
var errNoAnswerInTime = errors.New("its NotAfter has passed")

// drop takes a change that nobody waits for out of its queue.
func (g *group) drop(l line, c *change) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := &g.queues[l]
	for i := range q.waiting {
		if q.waiting[i] == c {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			return
		}
	}
}

// start gives what can begin to lanes that are free. g.mu is held.
func (g *group) start() {
	for i := range g.queues {
		q := &g.queues[i]
		for q.busy < g.lanes {
			batch := q.take(g.inFlight)
			if len(batch) == 0 {
				break
			}
			q.busy++
			go g.run(q, batch)
		}
	}
	for len(g.solos) > 0 && g.solo < g.mostSolo() {
		c := g.solos[0]
		g.solos = g.solos[1:]
		g.solo++
		go g.alone(c)
	}
}

// mostSolo leaves half of the pool to others: changes that are made alone wait for rows that
// somebody holds.
func (g *group) mostSolo() int {
	if most := g.store.calls.Stats().MaxOpenConnections; most > 0 {
		return max(1, most/2)
	}
	return mostTogether
}

// take removes from the queue what makes one transaction, and marks its keys.
func (q *queue) take(inFlight map[recordID]struct{}) (batch []*change) {
	size := 0
	left := q.waiting[:0]
	for _, c := range q.waiting {
		_, taken := inFlight[c.id]
		if taken || len(batch) == mostTogether || len(batch) > 0 && size+c.size > mostBytes {
			left = append(left, c)
			continue
		}
		inFlight[c.id] = struct{}{}
		size += c.size
		batch = append(batch, c)
	}
	clear(q.waiting[len(left):])
	q.waiting = left
	return batch
}

// run makes the changes of a batch. Where one of them fails, or its row is held by somebody else,
// all was rolled back, or that one left out: what was not made is made alone then, in a transaction
// of its own. Of a COMMIT without an answer nobody knows what became of it: all its callers are
// told so, and may make the same call again.
func (g *group) run(q *queue, batch []*change) {
	err := g.store.backend.together(batch)
	var commit *commitError
	unknown := errors.As(err, &commit)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range batch {
		switch {
		case unknown && c.err == nil:
			c.err = err
			g.end(c)
		case c.err != nil, err == nil && !c.alone:
			g.end(c)
		default:
			g.solos = append(g.solos, c)
		}
	}
	g.mu.Unlock()
	runtime.Gosched() // those who were answered may have the next change at hand
	g.mu.Lock()
	q.busy--
	g.start()
}

// end lets the next change of the key come, and tells the caller. g.mu is held.
func (g *group) end(c *change) {
	delete(g.inFlight, c.id)
	close(c.done)
}

// alone makes a change in a transaction of its own, and waits as long for it as its caller does.
func (g *group) alone(c *change) {
	if c.begin() {
		c.err = g.store.backend.write(c.ctx, c.id, c.notAfter, c.apply)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.solo--
	g.end(c)
	g.start()
}

// unknownError: the caller's context ended while its change was committed.
type unknownError struct{ ended error }

func (e *unknownError) Unwrap() error { return e.ended }
func (e *unknownError) Error() string {
	return "sqlstore: the call ended while its change was under way, so that nobody knows whether it was made; the same call by the same owner " +
		"may be made again: " + e.ended.Error()
}

// Waiting is how many calls stand in line for a transaction: more than twice 128 for long means
// that the database cannot keep up.
func (s *Store) Waiting() int {
	if s.group == nil {
		return 0
	}
	s.group.mu.Lock()
	defer s.group.mu.Unlock()
	n := 0
	for i := range s.group.queues {
		n += len(s.group.queues[i].waiting)
	}
	return n + s.charges.reading.len() + s.charges.writing.len()
}
