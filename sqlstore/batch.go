package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"math/bits"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/storeapi"
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
		t := time.NewTimer(max(0, c.notAfter.Sub(c.db.clock())) + slack)
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

// rowWait is the longest that grouped changes wait for a row: a row that is held longer would delay
// all of them. MySQL rounds it to whole seconds.
const rowWait = 50 * time.Millisecond

// together makes changes in one transaction, with few statements whatever their number.
func (s server) together(changes []*change) error {
	wait, cancel := s.db.patience(context.Background(), time.Time{})
	defer cancel()
	wait.lock = rowWait
	call, cancel := context.WithTimeout(context.Background(), wait.limit+slack)
	defer cancel()
	for lost := 0; ; lost++ {
		err := s.transaction(call, wait, earliest(changes), func(ctx context.Context, w sqlkit.Execer) (bool, error) {
			begun := begin(changes)
			switch len(begun) {
			case 0:
				return false, nil
			case 1:
				if s.db.dialect == PostgreSQL { // the statements for many are slower for one
					return begun[0].apply(ctx, w)
				}
			}
			return changeAll(ctx, w, s.locking, begun)
		})
		var gone *lostError
		if lost == lostConnections || isOwn(err) || !errors.As(err, &gone) || s.manner.fate(err) != onlyLost || !sqlkit.Pause(wait) {
			return err
		}
	}
}

// see implements backend.
func (s server) see(ctx context.Context, of []*sight) error {
	return s.read(ctx, brief, func(ctx context.Context, db sqlkit.Execer) (err error) {
		if k := of[0]; len(of) == 1 {
			k.l, err = s.db.load(ctx, db, s.db.queries().load, k.id)
			return err
		}
		return seeMany(ctx, db, s.looking, of)
	})
}

func (s server) insertsFirst() bool { return s.locking.insertsFirst() }

// together makes changes in one transaction. If other processes keep the file locked, making each
// change alone would not help.
func (s sqlite) together(changes []*change) error {
	err := s.transaction(changes)
	var lock *lockError
	if !errors.As(err, &lock) {
		return err
	}
	for _, c := range changes {
		if c.err == nil {
			c.err = err
		}
	}
	return nil
}

func (s sqlite) transaction(changes []*change) error {
	ctx := context.Background() // once the lock is held, the rest is short
	list := inList{s.db, 0}
	for _, c := range changes {
		if c.looks(list) {
			list.least++
		}
	}
	// Before a connection is held: preparing takes one.
	statements, err := s.db.statements.get(ctx, s.db, s.db.queries().lock, s.db.queries().make, s.db.queries().put, s.db.queries().putSame, list.query(1))
	if err != nil {
		return err
	}
	// the records are in one file, so attached files do not matter
	tx, err := s.db.beginWith(ctx, func(tx *sql.Tx) error { return s.db.lockFile(ctx, prepared{tx, statements}) })
	if err != nil {
		return err
	}
	defer tx.end()
	now := begin(changes)
	if len(now) == 0 {
		return nil
	}
	commit, err := changeAll(ctx, prepared{tx.Tx, statements}, list, now)
	if err != nil || !commit {
		return err
	}
	if err := tx.commitWithin(ctx, s.timeLeft(now)); err != nil {
		if sqliteUndone(err) {
			return err
		}
		return &commitError{err}
	}
	return nil
}

// timeLeft returns how long a COMMIT may wait: until the first of the changes would come too late.
// If it waits in vain, each change is made alone, in its own time.
func (s sqlite) timeLeft(changes []*change) time.Duration {
	limit := s.db.lockWait
	for _, c := range changes {
		if !c.notAfter.IsZero() {
			limit = min(limit, max(0, c.notAfter.Sub(s.db.clock())))
		}
	}
	return limit
}

// see implements backend. It uses no session: no caller waits for SQLite longer than its own
// context, whatever busy_timeout is.
func (s sqlite) see(ctx context.Context, of []*sight) error {
	list := inList{s.db, len(of)}
	query := list.query(len(of))
	statements, err := s.db.statements.get(ctx, s.db, query)
	if err != nil {
		return err
	}
	wait, cancel := s.db.patience(ctx, time.Time{})
	defer cancel()
	return wait.over(retry(wait, func() error { return seeMany(ctx, pooled{statements[query]}, list, of) }))
}

// inList reads many rows with one statement that lists their ids, and writes each row with a
// prepared one.
type inList struct {
	db    *database
	least int // how many ids the statement has at least
}

func (l inList) loadMany(ctx context.Context, w querier, ids []recordID) (map[recordID]loaded, loaded, error) {
	args := make([]any, l.places(len(ids)))
	for i := range args {
		args[i] = ids[min(i, len(ids)-1)][:]
	}
	return l.db.loadAll(ctx, w, l.query(len(ids)), args...)
}

// query returns a statement with placeholders for n ids; the last id fills the rest.
func (l inList) query(n int) string {
	return strings.Replace(l.db.queries().loadMany, "(?)", "("+sqlkit.List(l.places(n))+")", 1)
}

// places returns the number of ids in a statement for n, a power of two. So there are few different
// statements to prepare.
func (l inList) places(n int) int { return 1 << bits.Len(uint(max(1, l.least, n)-1)) }

// surely is always true, since no other call writes.
func (inList) surely(*change) bool { return true }

func (inList) insertsFirst() bool { return true }

func (l inList) writeMany(ctx context.Context, w sqlkit.Execer, made, changed []*change) error {
	for _, c := range made {
		r, err := w.ExecContext(ctx, l.db.queries().make, c.args()...)
		if err != nil {
			return err
		}
		made, err := byCount(r)
		if err != nil {
			return err
		}
		if !made {
			c.met()
		}
	}
	for _, c := range changed {
		if c.last != nil {
			same, err := l.putSame(ctx, w, c)
			if err != nil {
				return err
			}
			c.alone = !same
			continue
		}
		if _, err := w.ExecContext(ctx, l.db.queries().put, append(rowArgs(&c.next), c.id[:])...); err != nil {
			return err
		}
	}
	return nil
}

// putSame overwrites a record if it is as this store has last written it.
func (l inList) putSame(ctx context.Context, w sqlkit.Execer, c *change) (same bool, err error) {
	was := c.last
	args := append(rowArgs(&c.next), c.id[:], was.Owner[:], int64(was.Fence), int64(was.State), was.LeaseEnd, was.Updated, appendData(nil, was)) //nolint:gosec // fences stay below 2^53
	r, err := w.ExecContext(ctx, l.db.queries().putSame, args...)
	if err != nil {
		return false, err
	}
	return byCount(r)
}

func (sqlite) insertsFirst() bool { return true }

// looks reads the records of many callers on one connection: the lookups that arrive during a read
// form the next one. There is no timer, and a lone call waits for no other.
type looks struct {
	db      *database
	backend backend
	alone   chan struct{} // limits how many callers look alone at one time

	mu      sync.Mutex
	waiting []*sight
	busy    int // lanes in use
}

// lookLanes is 2, so that one connection that does not answer does not block all lookups.
const lookLanes = 2

// lonely is how many callers look alone at one time. Without it, a failed batch would make all its
// callers look alone, each on its own connection.
const lonely = 4

func newLooks(db *database, b backend) *looks {
	return &looks{db: db, backend: b, alone: make(chan struct{}, lonely)}
}

// at reads a record together with others. If that fails, the caller looks alone, since another
// record may have caused the error.
func (k *looks) at(ctx context.Context, id recordID) (loaded, error) {
	wait, cancel := k.db.patience(ctx, time.Time{})
	defer cancel()
	s := &sight{id: id, done: make(chan struct{})}
	k.mu.Lock()
	k.waiting = append(k.waiting, s)
	k.start()
	k.mu.Unlock()
	select {
	case <-s.done:
	case <-wait.Done():
		k.drop(s)
		return loaded{}, &lockError{ended: ctx.Err(), after: wait.limit, text: k.db.waits}
	}
	if s.err == nil {
		return s.l, nil
	}
	select {
	case k.alone <- struct{}{}:
	case <-wait.Done():
		return loaded{}, &lockError{ended: ctx.Err(), after: wait.limit, text: k.db.waits}
	}
	defer func() { <-k.alone }()
	return lookAlone(ctx, k.db, k.backend, id)
}

// drop removes a lookup whose caller has left, so that the line does not grow while the database
// does not answer.
func (k *looks) drop(s *sight) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.Index(k.waiting, s); i >= 0 {
		k.waiting = slices.Delete(k.waiting, i, i+1)
	}
}

// start reads waiting lookups if a lane is free. k.mu is held.
func (k *looks) start() {
	for k.busy < lookLanes && len(k.waiting) > 0 {
		n := min(len(k.waiting), mostTogether)
		batch := k.waiting[:n:n]
		k.waiting = k.waiting[n:]
		k.busy++
		go k.run(batch)
	}
}

func (k *looks) run(batch []*sight) {
	err := k.backend.see(context.Background(), batch)
	for _, s := range batch {
		s.err = err
		close(s.done)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy--
	k.start()
}

// lookAlone is look for a single call.
func lookAlone(ctx context.Context, d *database, b backend, id recordID) (l loaded, err error) {
	err = b.read(ctx, brief, func(ctx context.Context, db sqlkit.Execer) error {
		l, err = d.load(ctx, db, d.queries().load, id)
		return err
	})
	return l, err
}

// turns lets one call of this process at a time write to a key. Waiting calls hold no connection:
// otherwise the waiters for one held key would use up the pool, and calls for other keys would get
// no connection.
type turns struct {
	mu   sync.Mutex
	keys map[recordID]*turn
}

func newTurns() *turns { return &turns{keys: make(map[recordID]*turn)} }

type turn struct {
	held  chan struct{}
	users int // holders and waiters
}

// take waits for the turn of id until ctx ends.
func (t *turns) take(ctx context.Context, id recordID) (give func(), err error) {
	t.mu.Lock()
	k := t.keys[id]
	if k == nil {
		k = &turn{held: make(chan struct{}, 1)}
		t.keys[id] = k
	}
	k.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(t.keys, id)
		}
	}
	select {
	case k.held <- struct{}{}:
		return func() { <-k.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
