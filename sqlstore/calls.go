package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/storeapi"
)

// Acquire implements [storeapi.Store].
func (s *Store) Acquire(ctx context.Context, req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	// Own copies: the caller may reuse its slices.
	req.Fingerprint, req.Binding = bytes.Clone(req.Fingerprint), bytes.Clone(req.Binding)
	req.Finish = protocol.OwnFinish(req.Finish)
	var status storeapi.Status
	size := len(req.Fingerprint) + len(req.Binding)
	if req.Finish != nil {
		size += len(req.Finish.Answer.Body)
	}
	c := &change{
		db: s.db, ctx: ctx, key: req.Key, notAfter: req.NotAfter, size: size,
		decide: func(cur protocol.Row, now protocol.Micros, floor storeapi.Fence) (next protocol.Row, write bool, err error) {
			next, status, write, err = protocol.Acquire(cur, now, floor, &req)
			return next, write, err
		},
	}
	row, now, err := s.claim(c)
	var lock *lockError
	if errors.As(err, &lock) && lock.ended == nil && !req.NotAfter.IsZero() && s.db.clock().After(req.NotAfter) {
		err = storeapi.ErrTooLate
	}
	if err != nil {
		return storeapi.Acquired{}, err
	}
	return storeapi.Acquired{Status: status, Record: row.Record(req.Key, now)}, nil
}

// Extend implements [storeapi.Store].
func (s *Store) Extend(ctx context.Context, req storeapi.ExtendRequest) error {
	size := 0
	if req.Progress != nil {
		own := *req.Progress
		own.Body = bytes.Clone(own.Body)
		req.Progress, size = &own, len(own.Body)
	}
	c := &change{
		db: s.db, ctx: ctx, key: req.Key, size: size,
		decide: func(cur protocol.Row, now protocol.Micros, _ storeapi.Fence) (protocol.Row, bool, error) {
			next, err := protocol.Extend(cur, now, &req)
			return next, err == nil, err
		},
	}
	_, _, err := s.make(c, heartbeats)
	return err
}

// Complete implements [storeapi.Store].
func (s *Store) Complete(ctx context.Context, req storeapi.CompleteRequest) (storeapi.Record, error) {
	if s.group != nil {
		req.Answer.Body = bytes.Clone(req.Answer.Body)
	}
	c := &change{
		db: s.db, ctx: ctx, key: req.Key, size: len(req.Answer.Body),
		decide: func(cur protocol.Row, now protocol.Micros, _ storeapi.Fence) (protocol.Row, bool, error) {
			next, write, err := protocol.Complete(cur, now, &req)
			return next, write || err == nil && s.again(), err
		},
	}
	row, now, err := s.make(c, claims)
	if err != nil {
		return storeapi.Record{}, err
	}
	if !req.Quiet {
		s.tell(c.id)
	}
	return row.Record(req.Key, now), nil
}

// Release implements [storeapi.Store].
func (s *Store) Release(ctx context.Context, req storeapi.ReleaseRequest) error {
	c := &change{
		db: s.db, ctx: ctx, key: req.Key,
		decide: func(cur protocol.Row, now protocol.Micros, _ storeapi.Fence) (protocol.Row, bool, error) {
			next, write, err := protocol.Release(cur, now, &req)
			return next, write || err == nil && s.again(), err
		},
	}
	_, _, err := s.make(c, claims)
	if err == nil && !req.Quiet {
		s.tell(c.id)
	}
	return err
}

// again reports whether a finish that is already stored is written once more. If PostgreSQL's wait
// for its synchronous replicas was interrupted, commits are visible before the replicas have them.
// So a repeated call, whose first outcome was unknown, is answered after a COMMIT of its own.
func (s *Store) again() bool { return s.db.dialect == PostgreSQL }

// Lookup implements [storeapi.Store]. A key whose transaction (RunTx) is open in this process is
// in progress; the content of its record is not known before the commit.
func (s *Store) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	if err := s.check(ctx, &key); err != nil {
		return storeapi.Record{}, err
	}
	id := idOf(key)
	// asked first: if it is not open any more, the record shows its outcome
	open := s.running.other(id) != nil
	l, err := s.look(ctx, id)
	if err != nil {
		return storeapi.Record{}, err
	}
	rec := l.row.Record(key, l.now)
	if open && rec.State == 0 {
		rec.State, rec.OnDoubt, rec.LeaseLeft = storeapi.StateInProgress, storeapi.Refuse, strayLease
	}
	return rec, nil
}

// Issue implements [storeapi.Issuer].
func (s *Store) Issue(ctx context.Context, req storeapi.IssueRequest) (storeapi.Status, error) {
	var status storeapi.Status // a caller that has left does not read it
	c := &change{
		db: s.db, ctx: ctx, key: req.Key,
		decide: func(cur protocol.Row, now protocol.Micros, _ storeapi.Fence) (next protocol.Row, write bool, err error) {
			next, status, write = protocol.Issue(cur, now, &req)
			return next, write, nil
		},
	}
	if _, _, err := s.make(c, claims); err != nil {
		return 0, err
	}
	return status, nil
}

// claim makes a change that may be a duplicate's. If the key was seen before, it first reads the
// record. If that is enough for the answer, nothing is locked and it waits for no other call.
func (s *Store) claim(c *change) (protocol.Row, protocol.Micros, error) {
	if err := s.check(c.ctx, &c.key); err != nil {
		return protocol.Row{}, 0, err
	}
	c.id = idOf(c.key)
	s.remembered.take(c.id)
	wait, cancel := s.db.patience(c.ctx, c.notAfter)
	defer cancel()
	if s.group != nil && s.backend.insertsFirst() && s.seen.isNew(c.id) {
		first := &change{db: s.db, ctx: c.ctx, key: c.key, id: c.id, notAfter: c.notAfter, size: c.size, decide: c.decide, first: true}
		row, now, err := s.write(first, wait, claims)
		if err == nil {
			s.seen.was(true)
		}
		if !errors.Is(err, errMet) {
			return row, now, err
		}
	}
	seen, err := s.look(wait, c.id)
	if err != nil {
		if wait.Err() != nil {
			err = &lockError{ended: c.ctx.Err(), after: wait.limit, text: s.db.waits}
		}
		return protocol.Row{}, 0, err
	}
	s.seen.was(seen.row.State == 0)
	if next, write, err := c.decide(seen.row, seen.now, seen.floor); !write || err != nil {
		return next, seen.now, err
	}
	c.looked, c.seen = true, seen
	return s.write(c, wait, claims)
}

// make makes a change that has to write.
func (s *Store) make(c *change, l line) (protocol.Row, protocol.Micros, error) {
	if err := s.check(c.ctx, &c.key); err != nil {
		return protocol.Row{}, 0, err
	}
	c.id = idOf(c.key)
	c.last = s.remembered.take(c.id)
	wait, cancel := s.db.patience(c.ctx, c.notAfter)
	defer cancel()
	return s.write(c, wait, l)
}

func (s *Store) write(c *change, wait patience, l line) (protocol.Row, protocol.Micros, error) {
	var err error
	if s.group == nil {
		err = s.backend.write(c.ctx, c.id, c.notAfter, c.apply)
	} else {
		c.done = make(chan struct{})
		err = s.group.do(wait, l, c)
	}
	if err != nil {
		return protocol.Row{}, 0, s.db.failed("write", err)
	}
	if c.writes && s.group != nil && s.db.queries().putSame != "" {
		s.remembered.keep(c.id, &c.next)
	}
	s.checkClock(&c.l)
	return c.next, c.l.now, c.decided
}

// look reads the record without opening a transaction. The time was read before the record: the
// answer was true at some moment of the call.
func (s *Store) look(ctx context.Context, id recordID) (l loaded, err error) {
	if s.looks != nil {
		l, err = s.looks.at(ctx, id)
	} else {
		l, err = lookAlone(ctx, s.db, s.backend, id)
	}
	if err != nil {
		return l, s.db.failed("read", err)
	}
	s.checkClock(&l)
	return l, nil
}

// check refuses invalid calls before they reach the database.
func (s *Store) check(ctx context.Context, key *storeapi.StoreKey) error {
	if err := s.admit(ctx, key); err != nil {
		return err
	}
	return s.find(ctx)
}

// admit is check without a look for the tables.
func (s *Store) admit(ctx context.Context, key *storeapi.StoreKey) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	return key.Validate()
}

// enter is check for a call without a key.
func (s *Store) enter(ctx context.Context) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	return s.find(ctx)
}

// alive refuses a call whose context has ended, or that comes from within a transaction on this
// database. Such a call would wait for its own transaction.
func (s *Store) alive(ctx context.Context) error {
	if inTransaction(ctx, s.db.pool) {
		return storeapi.ErrInTransaction
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sqlstore: the context had ended before the call: %w", err)
	}
	return nil
}

// checkClock reports a clock that was set back, or clocks that differ. Both make leases longer than
// they should be.
func (s *Store) checkClock(l *loaded) {
	row := &l.row
	if row.State == 0 || s.skewed.Load() {
		return
	}
	lease := usualLease
	if row.State == storeapi.StateInProgress && row.LeaseEnd != 0 {
		lease = time.Duration(row.LeaseEnd-row.Updated) * time.Microsecond
	}
	ahead := time.Duration(row.Updated-l.now) * time.Microsecond
	if ahead > lease/10 && s.skewed.CompareAndSwap(false, true) {
		s.db.logger.Warn("sqlstore: a record was updated in the future of "+s.backend.skew()+"; leases last longer by as much",
			"table", s.db.table, "ahead", ahead)
	}
}

// Waiting returns how many calls are queued for a transaction. If it stays above twice 128, the
// database cannot keep up.
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

// find looks once for the schema or the database of the tables, and writes it into all statements:
// the work can change the search_path or the database of a session, which would find other tables
// then. Without tables it finds none, and the next call looks again.
func (s *Store) find(ctx context.Context) error {
	if s.db.placed.Load() {
		return nil
	}
	var schema string
	err := s.backend.read(ctx, brief, func(ctx context.Context, db sqlkit.Execer) error {
		err := db.QueryRowContext(ctx, s.db.queries().where).Scan(&schema)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	switch {
	case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return &lockError{after: s.db.lockWait, text: serverWaits}
	case err != nil:
		return s.db.failed("look for the tables", err)
	case strings.ContainsAny(schema, "?'\"`\\"): // no statement can name it
		s.db.placed.Store(true)
	case schema != "":
		s.db.place(schema)
	}
	return nil
}

// seenKeys guesses whether a claim is the first one of its key. A first claim inserts at once. A
// duplicate looks at the record first, which locks nothing. A wrong guess costs one statement.
//
// A key that this store has claimed before is a duplicate's. Any other key is new, unless most of
// the latest claims of such keys were duplicates.
type seenKeys struct {
	mu           sync.Mutex
	newer, older map[recordID]struct{}
	newLately    int // grows with keys that were new, and shrinks with others
}

const (
	// mostSeen is half of how many keys are known at most: about 3 MB.
	mostSeen = 1 << 15
	// mostLately bounds newLately, so that a change of traffic shows soon.
	mostLately = 16
)

// isNew returns the guess for a claim, and counts the key as seen.
func (k *seenKeys) isNew(id recordID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, seen := k.newer[id]
	if !seen {
		_, seen = k.older[id]
	}
	if seen {
		return false
	}
	if k.newer == nil || len(k.newer) >= mostSeen {
		k.newer, k.older = make(map[recordID]struct{}), k.newer
	}
	k.newer[id] = struct{}{}
	return k.newLately >= 0
}

// was tells what a claim has found for a key that was not seen before.
func (k *seenKeys) was(isNew bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if isNew {
		k.newLately = min(k.newLately+1, mostLately)
	} else {
		k.newLately = max(k.newLately-2, -mostLately)
	}
}

// remembered has the records of attempts that this store has claimed, as they were last written.
// The next change of such an attempt, a heartbeat or the end, needs no read: its statement writes
// only if the record is still the same.
type remembered struct {
	mu   sync.Mutex
	rows map[recordID]protocol.Row
}

// mostRemembered bounds the memory, together with the rule that a record with progress is not
// remembered.
const mostRemembered = 4096

// keep remembers a record that was written.
func (m *remembered) keep(id recordID, row *protocol.Row) {
	if row.LeaseEnd == 0 || row.Answer.Body != nil {
		return
	}
	own := *row // callers get the record too
	own.Fingerprint, own.Binding = bytes.Clone(row.Fingerprint), bytes.Clone(row.Binding)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rows == nil {
		m.rows = make(map[recordID]protocol.Row)
	}
	if len(m.rows) >= mostRemembered {
		for other := range m.rows {
			delete(m.rows, other)
			break
		}
	}
	m.rows[id] = own
}

// take returns what is remembered of a record, and forgets it: the call may write.
func (m *remembered) take(id recordID) *protocol.Row {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, ok := m.rows[id]
	if !ok {
		return nil
	}
	delete(m.rows, id)
	return &row
}
