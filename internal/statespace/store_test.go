//go:build !race

package statespace_test

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// holder is the caller that ends an attempt. No right store uses the attempt's number.
type holder struct {
	owner   storeapi.Owner
	fence   storeapi.Fence
	attempt int
}

// store is a store of one key, with its clock. Times are in microseconds.
type store interface {
	now() int64
	move(by int64)
	acquire(req storeapi.AcquireRequest) (storeapi.Acquired, error)
	extend(h holder, lease time.Duration, works bool) error
	complete(h holder, state storeapi.State, body []byte) error
	release(h holder, inDoubt bool) error
	lookup() storeapi.Record
	sweep()
}

var key = storeapi.StoreKey{Namespace: "n", Layer: "fn", Key: storeapi.Key{Operation: "charge", ID: "k"}}

// rows is a store with a single row: a value, so that a state can be copied and compared.
type rows struct {
	row   protocol.Row
	floor storeapi.Fence
	time  int64
	rules *rules
}

func (s *rows) now() int64    { return s.time }
func (s *rows) move(by int64) { s.time += by }

func (s *rows) acquire(req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	before := s.row
	if s.rules.before != nil {
		s.rules.before(&before, &req)
	}
	next, status, write, err := protocol.Acquire(before, s.time, s.floor, &req)
	if err != nil {
		return storeapi.Acquired{}, err
	}
	if write {
		if s.rules.won != nil {
			s.rules.won(&s.row, &next, &req)
		}
		s.row = next
	}
	return storeapi.Acquired{Status: status, Record: next.Record(key, s.time)}, nil
}

func (s *rows) as(h holder) (storeapi.Owner, storeapi.Fence) {
	if s.rules.owns != nil && s.row.State != 0 && s.rules.owns(&s.row, h) {
		return s.row.Owner, s.row.Fence
	}
	return h.owner, h.fence
}

func (s *rows) extend(h holder, lease time.Duration, works bool) error {
	owner, fence := s.as(h)
	next, err := protocol.Extend(s.row, s.time, &storeapi.ExtendRequest{Owner: owner, Fence: fence, Lease: lease, Works: works})
	if err == nil {
		s.row = next
	}
	return err
}

func (s *rows) complete(h holder, state storeapi.State, body []byte) error {
	owner, fence := s.as(h)
	next, write, err := protocol.Complete(s.row, s.time, &storeapi.CompleteRequest{
		Owner: owner, Fence: fence, State: state, Answer: storeapi.Answer{Body: body, Kept: true},
	})
	if write {
		s.row = next
	}
	return err
}

func (s *rows) release(h holder, inDoubt bool) error {
	owner, fence := s.as(h)
	req := &storeapi.ReleaseRequest{Owner: owner, Fence: fence, InDoubt: inDoubt}
	before := s.row
	if s.rules.wipes && before.State == storeapi.StateCompleted {
		before.State = storeapi.StateInProgress
	}
	next, write, err := protocol.Release(before, s.time, req)
	if write {
		s.row = next
	}
	return err
}

func (s *rows) lookup() storeapi.Record { return s.row.Record(key, s.time) }

func (s *rows) sweep() {
	if !s.row.Expired(s.time) {
		return
	}
	if !s.rules.forgetful {
		s.floor = max(s.floor, s.row.Fence)
	}
	s.row = protocol.Row{}
}

// memory is memstore with a clock that the test moves.
type memory struct {
	*memstore.Store
	time int64
}

func newMemory(at int64) *memory {
	m := &memory{time: at}
	m.Store = memstore.New(&memstore.Options{Now: func() time.Time { return time.UnixMicro(m.time) }})
	return m
}

func (m *memory) now() int64    { return m.time }
func (m *memory) move(by int64) { m.time += by }

func (m *memory) acquire(req storeapi.AcquireRequest) (storeapi.Acquired, error) {
	req.Key = key
	return m.Acquire(context.Background(), req)
}

func (m *memory) extend(h holder, lease time.Duration, works bool) error {
	return m.Extend(context.Background(), storeapi.ExtendRequest{Key: key, Owner: h.owner, Fence: h.fence, Lease: lease, Works: works})
}

func (m *memory) complete(h holder, state storeapi.State, body []byte) error {
	_, err := m.Complete(context.Background(), storeapi.CompleteRequest{
		Key: key, Owner: h.owner, Fence: h.fence, State: state, Answer: storeapi.Answer{Body: body, Kept: true},
	})
	return err
}

func (m *memory) release(h holder, inDoubt bool) error {
	return m.Release(context.Background(), storeapi.ReleaseRequest{Key: key, Owner: h.owner, Fence: h.fence, InDoubt: inDoubt})
}

func (m *memory) lookup() storeapi.Record {
	rec, err := m.Lookup(context.Background(), key)
	if err != nil {
		panic(err) // the key is valid and the context never ends
	}
	return rec
}

func (m *memory) sweep() {
	if _, err := m.Sweep(context.Background(), 10); err != nil {
		panic(err)
	}
}
