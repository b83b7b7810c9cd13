package memstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// List implements [storeapi.Lister]. Records are in the order of their keys' text.
func (s *Store) List(ctx context.Context, req storeapi.ListRequest) (storeapi.Page, error) {
	if err := ctx.Err(); err != nil {
		return storeapi.Page{}, err
	}
	limit := req.Limit
	if limit <= 0 {
		limit = 100
	}
	limit = min(limit, 1000)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock().UnixMicro()
	type found struct {
		text string
		rec  storeapi.Record
	}
	var all []found
	for key, row := range s.rows {
		if row.Absent(now) || req.InDoubt && !row.InDoubt(now) && !(req.Asked && row.Doubtful(now)) || req.Progress && !row.HasProgress() || !matchesRequest(&req, key, row.State) {
			continue
		}
		text, err := key.MarshalText()
		if err != nil {
			return storeapi.Page{}, fmt.Errorf("list: %w", err)
		}
		if string(text) <= req.After {
			continue
		}
		listed := *row
		listed.Answer.Body = nil
		rec := copyRecord(&listed, key, now)
		all = append(all, found{string(text), rec})
	}
	slices.SortFunc(all, func(a, b found) int { return strings.Compare(a.text, b.text) })
	page := storeapi.Page{Scans: true}
	for i, f := range all {
		if i == limit {
			page.Next = all[i-1].text
			break
		}
		page.Records = append(page.Records, f.rec)
		page.Read++
	}
	return page, nil
}

func matchesRequest(req *storeapi.ListRequest, key storeapi.StoreKey, state storeapi.State) bool {
	for _, f := range [][2]string{
		{req.Namespace, key.Namespace},
		{req.Layer, key.Layer},
		{req.Tenant, key.Tenant},
		{req.Operation, key.Operation},
	} {
		if f[0] != "" && f[0] != f[1] {
			return false
		}
	}
	return req.State == 0 || req.State == state
}

// Sweep implements [storeapi.Sweeper].
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock().UnixMicro()
	s.sweepUsage(now)
	removed := 0
	for key, row := range s.rows {
		if removed >= limit {
			break
		}
		if row.Expired(now) {
			s.floor = max(s.floor, row.Fence)
			delete(s.rows, key)
			removed++
		}
	}
	return removed, nil
}
