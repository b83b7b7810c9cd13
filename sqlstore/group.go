package sqlstore

import (
	"errors"
	"runtime"
	"sync"
	"time"
)

// group commits the changes of many callers in one transaction: the changes that arrive during a
// commit form the next one. There is no timer, and a lone call waits for no other. Databases do the
// same with their logs (DeWitt et al., Implementation Techniques for Main Memory Database Systems,
// 1984).
//
// Each key has at most one change in flight. Heartbeats have their own queue, so that no lease
// waits for claims.
type group struct {
	db      *database
	backend backend
	lanes   int // concurrent transactions of one queue

	mu       sync.Mutex
	queues   [2]queue
	inFlight map[recordID]struct{}
	solos    []*change // changes that must be made alone
	solo     int       // how many are being made alone
}

// queue has the waiting changes in order of arrival.
type queue struct {
	waiting []*change
	busy    int // lanes in use
}

// line is the index of a queue.
type line uint8

const (
	claims line = iota // and finishing calls
	heartbeats
)

func newGroup(db *database, b backend, lanes int) *group {
	return &group{db: db, backend: b, lanes: lanes, inFlight: make(map[recordID]struct{})}
}

// do makes a change together with others. wait limits how long it stays in the queue. A change that
// has begun is completed, but no caller waits for it longer than its own context.
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
		return &lockError{ended: wait.caller.Err(), after: wait.limit, text: g.db.waits}
	}
	var late <-chan time.Time
	if !c.notAfter.IsZero() {
		// Most callers have a definite answer by then, not "unknown".
		t := time.NewTimer(c.notAfter.Sub(c.db.clock()) + slack)
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

// errNoAnswerInTime means that the call's own NotAfter has passed.
var errNoAnswerInTime = errors.New("its NotAfter has passed")

// drop removes a change that no caller waits for from its queue.
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

// start gives changes that can begin to free lanes. g.mu is held.
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
// another transaction holds.
func (g *group) mostSolo() int {
	if most := g.db.calls.Stats().MaxOpenConnections; most > 0 {
		return max(1, most/2)
	}
	return mostTogether
}

// take removes the changes of one transaction from the queue, and marks their keys.
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

// run makes the changes of a batch. If one of them fails, the transaction is rolled back; if its
// row is held by another transaction, it is left out. Each change that was not made is then made
// alone, in its own transaction. If a COMMIT was not answered, its outcome is unknown: all callers
// get that error, and may make the same call again.
func (g *group) run(q *queue, batch []*change) {
	err := g.backend.together(batch)
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
	runtime.Gosched() // callers that were just answered may make their next change
	g.mu.Lock()
	q.busy--
	g.start()
}

// end answers the caller, and lets the next change of the key start. g.mu is held.
func (g *group) end(c *change) {
	delete(g.inFlight, c.id)
	close(c.done)
}

// alone makes a change in its own transaction, and waits for it as long as its caller does.
func (g *group) alone(c *change) {
	if c.begin() {
		c.err = g.backend.write(c.ctx, c.id, c.notAfter, c.apply)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.solo--
	g.end(c)
	g.start()
}

// unknownError means that the caller's context ended while its change was being committed.
type unknownError struct{ ended error }

func (e *unknownError) Unwrap() error { return e.ended }
func (e *unknownError) Error() string {
	return "sqlstore: the call ended while its change was under way, so that nobody knows whether it was made; the same call by the same owner " +
		"may be made again: " + e.ended.Error()
}
