// Package batch hides when a call reaches the database: which changes of many callers share a
// transaction and which lookups a statement, which call is made alone, and what is known of a
// record without reading it.
package batch

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/sqlstore/internal/table"
)

// Queue takes the calls of a store: claims, heartbeats, finishing calls and lookups.
type Queue struct {
	db            *table.Database
	changes       *changeQueue // nil: each change has its own transaction
	lookups       *lookupQueue // nil: each lookup has its own statement
	written       writtenRows  // if usesLastWrite
	Seen          SeenKeys     // keys that this store has claimed
	insertsFirst  bool         // a key that is probably new is inserted before it is looked at
	usesLastWrite bool         // a change of a record as this store wrote it needs no read
}

// New returns the queue of a database. lanes is how many transactions run at one time;
// zero: calls are not grouped.
func New(db *table.Database, lanes int) *Queue {
	q := &Queue{db: db}
	if lanes > 0 {
		q.changes = &changeQueue{db: db, lanes: lanes, inFlight: make(map[table.RecordID]struct{})}
		q.lookups = newLookupQueue(db)
		q.insertsFirst, q.usesLastWrite = db.Statements.Load().TellsInserted, db.Statements.Load().UpdateSame != ""
	}
	return q
}

// ClaimKey makes a call that may be a duplicate's. If the key was seen before, it first reads the
// record. If that is enough for the answer, nothing is locked and it waits for no other call.
func (q *Queue) ClaimKey(c *table.Call) (protocol.Row, protocol.Micros, error) {
	if q.usesLastWrite {
		q.written.takeRow(c.ID)
	}
	wait, cancel := q.db.NewPatience(c.Ctx, c.NotAfter)
	defer cancel()
	if q.insertsFirst && q.Seen.GuessNew(c.ID) {
		change := &table.Change{Call: c, Knows: table.GuessesNone}
		row, now, err := q.submitChange(wait, ClaimLine, change)
		if err == nil {
			q.Seen.LearnNew(change.Found.Row.State == 0)
		}
		if !errors.Is(err, table.ErrRecordThere) {
			return row, now, err
		}
	}
	found, err := q.LookUp(wait, c.ID)
	if err != nil {
		if wait.Err() != nil {
			err = q.db.WaitedInVain(wait.Limit, c.Ctx.Err())
		}
		return protocol.Row{}, 0, err
	}
	q.Seen.LearnNew(found.Row.State == 0)
	if next, write, err := c.Request.Decide(found); !write || err != nil {
		return next, found.Now, err
	}
	knows := table.SawOne
	if found.Row.State == 0 {
		knows = table.SawNone
	}
	return q.submitChange(wait, ClaimLine, &table.Change{Call: c, Knows: knows})
}

// ChangeRecord makes a call that has to write.
func (q *Queue) ChangeRecord(l Line, c *table.Call) (protocol.Row, protocol.Micros, error) {
	try := &table.Change{Call: c}
	if q.usesLastWrite {
		if last := q.written.takeRow(c.ID); last != nil {
			try.Knows, try.Last = table.WroteLast, *last
		}
	}
	wait, cancel := q.db.NewPatience(c.Ctx, c.NotAfter)
	defer cancel()
	return q.submitChange(wait, l, try)
}

// submitChange makes a change and waits for it.
func (q *Queue) submitChange(wait table.Patience, l Line, c *table.Change) (protocol.Row, protocol.Micros, error) {
	var err error
	if q.changes == nil {
		err = q.db.ChangeOne(c)
	} else {
		err = q.changes.submitAndWait(wait, l, c)
	}
	if err != nil {
		return protocol.Row{}, 0, q.db.CallerError("write", err)
	}
	if c.Writes && q.usesLastWrite {
		q.written.rememberRow(c.ID, &c.Next)
	}
	q.db.ReportSkew(&c.Found)
	return c.Next, c.Found.Now, c.Refused
}

// LookUp reads the record without opening a transaction. The time was read before the record: the
// answer was true at some moment of the call.
func (q *Queue) LookUp(ctx context.Context, id table.RecordID) (found table.Loaded, err error) {
	if q.lookups != nil {
		found, err = q.lookups.lookUpTogether(ctx, id)
	} else {
		found, err = q.db.LookUpOne(ctx, id)
	}
	if err != nil {
		return found, q.db.CallerError("read", err)
	}
	q.db.ReportSkew(&found)
	return found, nil
}

// CountWaiting returns how many changes are queued for a transaction.
func (q *Queue) CountWaiting() (n int) {
	if q.changes == nil {
		return 0
	}
	q.changes.mu.Lock()
	defer q.changes.mu.Unlock()
	for i := range q.changes.lines {
		n += len(q.changes.lines[i].waiting)
	}
	return n
}

// SeenKeys guesses whether a claim is the first one of its key. A first claim inserts at once. A
// duplicate looks at the record first, which locks nothing. A wrong guess costs one statement.
//
// A key that this store has claimed before is a duplicate's. Any other key is new, unless most of
// the latest claims of such keys were duplicates.
type SeenKeys struct {
	mu           sync.Mutex
	newer, older map[table.RecordID]struct{}
	newLately    int // grows with keys that were new, and shrinks with others
}

const (
	// maxSeen is half of how many keys are known at most: about 3 MB.
	maxSeen = 1 << 15
	// maxNewLately bounds newLately, so that a change of traffic shows soon.
	maxNewLately = 16
)

// GuessNew guesses whether a claim is the first one of its key, and counts the key as seen.
func (k *SeenKeys) GuessNew(id table.RecordID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, seen := k.newer[id]
	if !seen {
		_, seen = k.older[id]
	}
	if seen {
		return false
	}
	if k.newer == nil || len(k.newer) >= maxSeen {
		k.newer, k.older = make(map[table.RecordID]struct{}), k.newer
	}
	k.newer[id] = struct{}{}
	return k.newLately >= 0
}

// LearnNew tells what a claim has found whose key GuessNew had not seen.
func (k *SeenKeys) LearnNew(isNew bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if isNew {
		k.newLately = min(k.newLately+1, maxNewLately)
	} else {
		k.newLately = max(k.newLately-2, -maxNewLately)
	}
}

// writtenRows has the records of attempts that this store has claimed, as they were last written.
// The next change of such an attempt, a heartbeat or the end, needs no read: its statement writes
// only if the record is still the same.
type writtenRows struct {
	mu   sync.Mutex
	rows map[table.RecordID]protocol.Row
}

// maxWritten bounds the memory, together with the rule that a record with progress is not
// remembered.
const maxWritten = 4096

// rememberRow remembers a record that was written.
func (m *writtenRows) rememberRow(id table.RecordID, row *protocol.Row) {
	if row.LeaseEnd == 0 || row.Answer.Body != nil {
		return
	}
	own := *row // callers get the record too
	own.Fingerprint, own.Binding = bytes.Clone(row.Fingerprint), bytes.Clone(row.Binding)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rows == nil {
		m.rows = make(map[table.RecordID]protocol.Row)
	}
	if len(m.rows) >= maxWritten {
		for other := range m.rows {
			delete(m.rows, other)
			break
		}
	}
	m.rows[id] = own
}

// takeRow returns what is remembered of a record, and forgets it: the call may write.
func (m *writtenRows) takeRow(id table.RecordID) *protocol.Row {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, ok := m.rows[id]
	if !ok {
		return nil
	}
	delete(m.rows, id)
	return &row
}

// changeQueue commits the changes of many callers in one transaction: the changes that arrive
// during a commit form the next one. There is no timer, and a lone call waits for no other.
// Databases do the same with their logs (DeWitt et al., Implementation Techniques for Main Memory
// Database Systems, 1984).
//
// Each key has at most one change in flight. Heartbeats have their own line, so that no lease waits
// for claims.
type changeQueue struct {
	db    *table.Database
	lanes int // concurrent transactions of one line

	mu           sync.Mutex
	lines        [2]changeLine
	inFlight     map[table.RecordID]struct{}
	waitingAlone []*table.Change // changes that must be made alone
	runningAlone int             // how many are being made alone
}

// changeLine has the waiting changes in order of arrival.
type changeLine struct {
	waiting   []*table.Change
	busyLanes int // lanes in use
}

// Line is the index of a line of changes.
type Line uint8

const (
	ClaimLine Line = iota // and finishing calls
	HeartbeatLine
)

// submitAndWait makes a change together with others. wait limits how long it stays in the line. A
// change that has begun is completed, but no caller waits for it longer than its own context.
func (q *changeQueue) submitAndWait(wait table.Patience, l Line, c *table.Change) error {
	c.Done = make(chan struct{})
	q.mu.Lock()
	q.lines[l].waiting = append(q.lines[l].waiting, c)
	q.startBatches()
	q.mu.Unlock()
	select {
	case <-c.Done:
		return c.Err
	case <-wait.Done():
	}
	if c.LeaveQueue() {
		q.removeChange(l, c)
		return q.db.WaitedInVain(wait.Limit, wait.Caller.Err())
	}
	var late <-chan time.Time
	if !c.NotAfter.IsZero() {
		// Most callers have a definite answer by then, not "unknown".
		t := time.NewTimer(max(0, c.NotAfter.Sub(q.db.Clock())) + table.Slack)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-c.Done:
		return c.Err
	case <-wait.Caller.Done():
		return &table.UnknownError{Ended: wait.Caller.Err()}
	case <-late:
		return &table.UnknownError{Ended: errNoAnswerInTime}
	}
}

// errNoAnswerInTime means that the call's own NotAfter has passed.
var errNoAnswerInTime = errors.New("its NotAfter has passed")

// removeChange removes a change that no caller waits for from its line.
func (q *changeQueue) removeChange(l Line, c *table.Change) {
	q.mu.Lock()
	defer q.mu.Unlock()
	line := &q.lines[l]
	if i := slices.Index(line.waiting, c); i >= 0 {
		line.waiting = slices.Delete(line.waiting, i, i+1)
	}
}

// startBatches gives changes that can begin to free lanes. q.mu is held.
func (q *changeQueue) startBatches() {
	for i := range q.lines {
		line := &q.lines[i]
		for line.busyLanes < q.lanes {
			batch := line.takeBatch(q.inFlight)
			if len(batch) == 0 {
				break
			}
			line.busyLanes++
			go q.runBatch(line, batch)
		}
	}
	for len(q.waitingAlone) > 0 && q.runningAlone < q.maxAlone() {
		c := q.waitingAlone[0]
		q.waitingAlone = q.waitingAlone[1:]
		q.runningAlone++
		go q.runAlone(c)
	}
}

// maxAlone leaves half of the pool to others: changes that are made alone wait for rows that
// another transaction holds.
func (q *changeQueue) maxAlone() int {
	if most := q.db.Calls.Stats().MaxOpenConnections; most > 0 {
		return max(1, most/2)
	}
	return table.MostTogether
}

// takeBatch removes the changes of one transaction from the line, and marks their keys.
func (l *changeLine) takeBatch(inFlight map[table.RecordID]struct{}) (batch []*table.Change) {
	size := 0
	left := l.waiting[:0]
	for _, c := range l.waiting {
		_, taken := inFlight[c.ID]
		if taken || len(batch) == table.MostTogether || len(batch) > 0 && size+c.Size > table.MostBytes {
			left = append(left, c)
			continue
		}
		inFlight[c.ID] = struct{}{}
		size += c.Size
		batch = append(batch, c)
	}
	clear(l.waiting[len(left):])
	l.waiting = left
	return batch
}

// runBatch makes the changes of a batch. If one of them fails, the transaction is rolled back; if
// its row is held by another transaction, it is left out. Each change that was not made is then
// made alone, in its own transaction. If a COMMIT was not answered, its outcome is unknown: all
// callers get that error, and may make the same call again.
func (q *changeQueue) runBatch(line *changeLine, batch []*table.Change) {
	err := q.db.Backend.ChangeMany(batch)
	var commit *table.CommitError
	unknown := errors.As(err, &commit)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range batch {
		if c.Err == nil || c.Err == table.ErrMakeAlone { //nolint:errorlint // nothing is wrapped around it
			if !unknown && (err != nil || c.Err != nil) {
				q.waitingAlone = append(q.waitingAlone, c)
				continue
			}
			c.Err = err
		}
		delete(q.inFlight, c.ID) // the next change of the key may begin
		close(c.Done)
	}
	q.mu.Unlock()
	runtime.Gosched() // callers that were just answered may make their next change
	q.mu.Lock()
	line.busyLanes--
	q.startBatches()
}

// runAlone makes a change in its own transaction, and waits for it as long as its caller does.
func (q *changeQueue) runAlone(c *table.Change) {
	if c.BeginChange() {
		c.Err = q.db.ChangeOne(c)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.runningAlone--
	delete(q.inFlight, c.ID)
	close(c.Done)
	q.startBatches()
}

// lookupQueue reads the records of many callers on one connection: the lookups that arrive during a
// read form the next one. There is no timer, and a lone call waits for no other.
type lookupQueue struct {
	db         *table.Database
	aloneSlots chan struct{} // limits how many callers look alone at one time

	mu        sync.Mutex
	waiting   []*table.Lookup
	busyLanes int // lanes in use
}

// lookupLanes is 2, so that one connection that does not answer does not block all lookups.
const lookupLanes = 2

// maxLookupsAlone is how many callers look alone at one time. Without it, a failed batch would make
// all its callers look alone, each on its own connection.
const maxLookupsAlone = 4

func newLookupQueue(db *table.Database) *lookupQueue {
	return &lookupQueue{db: db, aloneSlots: make(chan struct{}, maxLookupsAlone)}
}

// lookUpTogether reads a record together with others. If that fails, the caller looks alone, since
// another record may have caused the error.
func (q *lookupQueue) lookUpTogether(ctx context.Context, id table.RecordID) (table.Loaded, error) {
	wait, cancel := q.db.NewPatience(ctx, time.Time{})
	defer cancel()
	l := &table.Lookup{ID: id, Done: make(chan struct{})}
	q.mu.Lock()
	q.waiting = append(q.waiting, l)
	q.startLookups()
	q.mu.Unlock()
	select {
	case <-l.Done:
	case <-wait.Done():
		q.removeLookup(l)
		return table.Loaded{}, q.db.WaitedInVain(wait.Limit, ctx.Err())
	}
	if l.Err == nil {
		return l.Found, nil
	}
	select {
	case q.aloneSlots <- struct{}{}:
	case <-wait.Done():
		return table.Loaded{}, q.db.WaitedInVain(wait.Limit, ctx.Err())
	}
	defer func() { <-q.aloneSlots }()
	return q.db.LookUpOne(ctx, id)
}

// removeLookup removes a lookup whose caller has left, so that the line does not grow while the
// database does not answer.
func (q *lookupQueue) removeLookup(l *table.Lookup) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, l); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
}

// startLookups reads waiting lookups if a lane is free. q.mu is held.
func (q *lookupQueue) startLookups() {
	for q.busyLanes < lookupLanes && len(q.waiting) > 0 {
		n := min(len(q.waiting), table.MostTogether)
		batch := q.waiting[:n:n]
		q.waiting = q.waiting[n:]
		q.busyLanes++
		go q.runLookups(batch)
	}
}

func (q *lookupQueue) runLookups(batch []*table.Lookup) {
	err := q.db.Backend.LookUpMany(context.Background(), batch)
	for _, l := range batch {
		l.Err = err
		close(l.Done)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busyLanes--
	q.startLookups()
}
