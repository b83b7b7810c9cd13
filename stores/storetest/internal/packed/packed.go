// Package packed is a store that keeps each record in its packed form. It shows that the packed
// form has everything that the protocol needs: it passes the whole suite.
package packed

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Store keeps packed records by the text of their keys.
type Store struct {
	clock func() time.Time

	mu    sync.Mutex // guards what follows
	rows  map[string][]byte
	floor storeapi.Fence // the largest fence of a removed record
	usage map[string][]byte
}

// New returns an empty store.
func New(clock func() time.Time) *Store {
	return &Store{clock: clock, rows: map[string][]byte{}, usage: map[string][]byte{}}
}

// Acquire implements [storeapi.Store].
func (s *Store) Acquire(ctx context.Context, req storeapi.AcquireRequest) (a storeapi.Acquired, err error) {
	err = s.updateRow(ctx, req.Key, func(row protocol.Row, now protocol.Micros) (next protocol.Row, write bool, err error) {
		next, a.Status, write, err = protocol.Acquire(row, now, s.floor, &req)
		a.Record = next.Record(req.Key, now)
		return next, write, err
	})
	if err != nil {
		return storeapi.Acquired{}, err
	}
	a.Record.Fingerprint, a.Record.Binding = slices.Clone(a.Record.Fingerprint), slices.Clone(a.Record.Binding)
	return a, nil
}

// ForgetAnswer implements [storeapi.Forgetter].
func (s *Store) ForgetAnswer(ctx context.Context, req storeapi.ForgetRequest) error {
	return s.updateRow(ctx, req.Key, func(row protocol.Row, now protocol.Micros) (protocol.Row, bool, error) {
		return protocol.Forget(row, now, &req)
	})
}

// Extend implements [storeapi.Store].
func (s *Store) Extend(ctx context.Context, req storeapi.ExtendRequest) error {
	return s.updateRow(ctx, req.Key, func(row protocol.Row, now protocol.Micros) (protocol.Row, bool, error) {
		next, err := protocol.Extend(row, now, &req)
		return next, err == nil, err
	})
}

// Complete implements [storeapi.Store].
func (s *Store) Complete(ctx context.Context, req storeapi.CompleteRequest) (r storeapi.Record, err error) {
	err = s.updateRow(ctx, req.Key, func(row protocol.Row, now protocol.Micros) (protocol.Row, bool, error) {
		next, write, err := protocol.Complete(row, now, &req)
		r = next.Record(req.Key, now)
		return next, write, err
	})
	if err != nil {
		return storeapi.Record{}, err
	}
	return r, nil
}

// Release implements [storeapi.Store].
func (s *Store) Release(ctx context.Context, req storeapi.ReleaseRequest) error {
	return s.updateRow(ctx, req.Key, func(row protocol.Row, now protocol.Micros) (protocol.Row, bool, error) {
		return protocol.Release(row, now, &req)
	})
}

// Lookup implements [storeapi.Store].
func (s *Store) Lookup(ctx context.Context, key storeapi.StoreKey) (r storeapi.Record, err error) {
	err = s.updateRow(ctx, key, func(row protocol.Row, now protocol.Micros) (protocol.Row, bool, error) {
		r = row.Record(key, now)
		return row, false, nil
	})
	return r, err
}

// Issue implements [storeapi.Issuer].
func (s *Store) Issue(ctx context.Context, req storeapi.IssueRequest) (status storeapi.Status, err error) {
	err = s.updateRow(ctx, req.Key, func(row protocol.Row, now protocol.Micros) (next protocol.Row, write bool, err error) {
		next, status, write = protocol.Issue(row, now, &req)
		return next, write, nil
	})
	return status, err
}

// Sweep implements [storeapi.Sweeper].
func (s *Store) Sweep(ctx context.Context, limit int) (removed int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock().UnixMicro()
	for text, packed := range s.rows {
		if removed == limit {
			break
		}
		row, err := protocol.ParseRow(bytes.Clone(packed))
		if err != nil {
			return removed, err
		}
		if row.Expired(now) {
			s.floor = max(s.floor, row.Fence)
			delete(s.rows, text)
			removed++
		}
	}
	return removed, nil
}

// List implements [storeapi.Lister] for the suite. It reads all records.
func (s *Store) List(ctx context.Context, req storeapi.ListRequest) (page storeapi.Page, err error) {
	if err := ctx.Err(); err != nil {
		return page, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock().UnixMicro()
	limit := req.Limit
	if limit <= 0 {
		limit = 100
	}
	var texts []string
	var last string
	for text := range s.rows {
		if text > req.After {
			texts = append(texts, text)
		}
	}
	slices.SortFunc(texts, strings.Compare)
	for _, text := range texts {
		var key storeapi.StoreKey
		if err := key.UnmarshalText([]byte(text)); err != nil {
			return page, err
		}
		row, err := protocol.ParseRow(bytes.Clone(s.rows[text]))
		if err != nil {
			return page, err
		}
		r := row.Record(key, now)
		if r.State == 0 || !matchesRequest(&req, &r) {
			continue
		}
		if len(page.Records) == limit {
			page.Next = last
			break
		}
		r.Answer.Body = nil
		page.Records, last = append(page.Records, r), text
		page.Read++
	}
	return page, nil
}

func matchesRequest(req *storeapi.ListRequest, r *storeapi.Record) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	return is(req.Namespace, r.Key.Namespace) && is(req.Layer, r.Key.Layer) && is(req.Tenant, r.Key.Tenant) &&
		is(req.Operation, r.Key.Operation) && (req.State == 0 || req.State == r.State) && (!req.InDoubt || r.InDoubt() || req.Asked && r.Asked()) &&
		(!req.Progress || !r.State.Finished() && r.Answer.Codec != "")
}

// updateRow makes one atomic change: it parses the bytes, lets f decide, and writes bytes again.
func (s *Store) updateRow(
	ctx context.Context, key storeapi.StoreKey, f func(protocol.Row, protocol.Micros) (protocol.Row, bool, error),
) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	text, err := key.MarshalText()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var row protocol.Row
	if packed, ok := s.rows[string(text)]; ok {
		if row, err = protocol.ParseRow(bytes.Clone(packed)); err != nil {
			return err
		}
	}
	next, write, err := f(row, s.clock().UnixMicro())
	if err != nil || !write {
		return err
	}
	packed, err := next.AppendBinary(nil)
	if err == nil {
		s.rows[string(text)] = packed
	}
	return err
}
