package broken

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

type (
	row    = protocol.Row
	micros = protocol.Micros
	fence  = storeapi.Fence
	status = storeapi.Status

	acquireReq  = storeapi.AcquireRequest
	extendReq   = storeapi.ExtendRequest
	completeReq = storeapi.CompleteRequest
	releaseReq  = storeapi.ReleaseRequest
	issueReq    = storeapi.IssueRequest
)

// rules are the rules of a store, of which a broken store changes some.
type rules struct {
	valid    func(storeapi.StoreKey) error
	key      func(storeapi.StoreKey) storeapi.StoreKey
	acquire  func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error)
	extend   func(cur row, now micros, req extendReq) (row, error)
	complete func(cur row, now micros, req completeReq) (row, bool, error)
	release  func(cur row, now micros, req releaseReq) (row, bool, error)
	issue    func(cur row, now micros, req issueReq) (row, status, bool)
	isSwept  func(cur row, now micros) bool
	// limit is how many records a sweep removes if it is asked for n.
	limit func(n int) int
	// changeRecord changes every record that is returned.
	changeRecord func(storeapi.Record) storeapi.Record
	// forgets: a sweep does not store the fences that it removed.
	forgets bool
	// unlocks reports whether Acquire unlocks the record between reading and writing it.
	unlocks func(cur row, now micros) bool
	// keepsGiven and givesKept: slices are not copied.
	keepsGiven, givesKept bool
}

func correctRules() rules {
	return rules{
		valid: storeapi.StoreKey.Validate,
		key:   func(k storeapi.StoreKey) storeapi.StoreKey { return k },
		acquire: func(cur row, now micros, floor fence, req acquireReq) (row, status, bool, error) {
			return protocol.Acquire(cur, now, floor, &req)
		},
		extend: func(cur row, now micros, req extendReq) (row, error) { return protocol.Extend(cur, now, &req) },
		complete: func(cur row, now micros, req completeReq) (row, bool, error) {
			return protocol.Complete(cur, now, &req)
		},
		release:      func(cur row, now micros, req releaseReq) (row, bool, error) { return protocol.Release(cur, now, &req) },
		issue:        func(cur row, now micros, req issueReq) (row, status, bool) { return protocol.Issue(cur, now, &req) },
		isSwept:      func(cur row, now micros) bool { return cur.Expired(now) },
		limit:        func(n int) int { return n },
		changeRecord: func(r storeapi.Record) storeapi.Record { return r },
		unlocks:      func(row, micros) bool { return false },
	}
}

// store keeps rows in memory and follows its rules. With the right rules it passes the suite.
type store struct {
	rules
	clock   func() time.Time
	meeting chan struct{}
	*sharedData
}

// sharedData is shared by the handles on one store.
type sharedData struct {
	mu    sync.Mutex // guards what follows
	rows  map[storeapi.StoreKey]row
	floor fence
	trips int
}

func newStore(clock func() time.Time) *store {
	return &store{correctRules(), clock, make(chan struct{}), &sharedData{rows: map[storeapi.StoreKey]row{}}}
}

// lockRow checks the call and locks the store.
func (s *store) lockRow(ctx context.Context, key storeapi.StoreKey) (storeapi.StoreKey, row, micros, error) {
	if err := ctx.Err(); err != nil {
		return key, row{}, 0, err
	}
	if err := s.valid(key); err != nil {
		return key, row{}, 0, err
	}
	s.mu.Lock()
	s.trips++
	stored := s.key(key)
	return stored, s.rows[stored], s.clock().UnixMicro(), nil
}

func (s *store) exportRecord(r row, key storeapi.StoreKey, now micros) storeapi.Record {
	rec := s.changeRecord(r.Record(key, now))
	if !s.givesKept {
		rec.Fingerprint, rec.Binding, rec.Answer.Body = slices.Clone(rec.Fingerprint), slices.Clone(rec.Binding), slices.Clone(rec.Answer.Body)
	}
	return rec
}

func (s *store) Acquire(ctx context.Context, req acquireReq) (storeapi.Acquired, error) {
	key, cur, now, err := s.lockRow(ctx, req.Key)
	if err != nil {
		return storeapi.Acquired{}, err
	}
	defer s.mu.Unlock()
	given := req
	if !s.keepsGiven {
		given.Fingerprint, given.Binding = slices.Clone(req.Fingerprint), slices.Clone(req.Binding)
	}
	next, status, write, err := s.acquire(cur, now, s.floor, given)
	if err != nil {
		return storeapi.Acquired{}, err
	}
	if write {
		if s.unlocks(cur, now) {
			s.letOthersIn()
		}
		s.rows[key] = next
	}
	return storeapi.Acquired{Status: status, Record: s.exportRecord(next, req.Key, now)}, nil
}

// letOthersIn lets another caller in, and waits a moment for one.
func (s *store) letOthersIn() {
	s.mu.Unlock()
	defer s.mu.Lock()
	moment := time.NewTimer(time.Millisecond)
	defer moment.Stop()
	select {
	case s.meeting <- struct{}{}:
	case <-s.meeting:
	case <-moment.C:
	}
}

func (s *store) Extend(ctx context.Context, req extendReq) error {
	key, cur, now, err := s.lockRow(ctx, req.Key)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if req.Progress != nil && !s.keepsGiven {
		p := *req.Progress
		p.Body = slices.Clone(p.Body)
		req.Progress = &p
	}
	next, err := s.extend(cur, now, req)
	if err == nil {
		s.rows[key] = next
	}
	return err
}

func (s *store) Complete(ctx context.Context, req completeReq) (storeapi.Record, error) {
	key, cur, now, err := s.lockRow(ctx, req.Key)
	if err != nil {
		return storeapi.Record{}, err
	}
	defer s.mu.Unlock()
	if !s.keepsGiven {
		req.Answer.Body = slices.Clone(req.Answer.Body)
	}
	next, write, err := s.complete(cur, now, req)
	if err != nil {
		return storeapi.Record{}, err
	}
	if write {
		s.rows[key] = next
	}
	return s.exportRecord(next, req.Key, now), nil
}

func (s *store) Release(ctx context.Context, req releaseReq) error {
	key, cur, now, err := s.lockRow(ctx, req.Key)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	next, write, err := s.release(cur, now, req)
	if write {
		s.rows[key] = next
	}
	return err
}

func (s *store) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	_, cur, now, err := s.lockRow(ctx, key)
	if err != nil {
		return storeapi.Record{}, err
	}
	defer s.mu.Unlock()
	return s.exportRecord(cur, key, now), nil
}

func (s *store) Issue(ctx context.Context, req issueReq) (status, error) {
	key, cur, now, err := s.lockRow(ctx, req.Key)
	if err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	next, status, write := s.issue(cur, now, req)
	if write {
		s.rows[key] = next
	}
	return status, nil
}

func (s *store) Sweep(ctx context.Context, limit int) (removed int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock().UnixMicro()
	for key, cur := range s.rows {
		if removed >= s.limit(limit) {
			break
		}
		if s.isSwept(cur, now) {
			if !s.forgets {
				s.floor = max(s.floor, cur.Fence)
			}
			delete(s.rows, key)
			removed++
		}
	}
	return removed, nil
}
