package redisstore

import (
	"context"
	"errors"
	"strings"

	"github.com/retrysafe/retrysafe/internal/redisnode"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// List implements [storeapi.Lister] for all primaries. Records are in the order of their keys'
// text. It scans the store's names once for each 65,536 of them, unless the request is for records
// in doubt or in progress, or for progress of an operation: those have an index.
func (s *Store) List(ctx context.Context, req storeapi.ListRequest) (storeapi.Page, error) {
	nodes, ok := s.client.(redisclient.Nodes)
	if !ok {
		return storeapi.Page{}, errors.ErrUnsupported
	}
	if req.Limit <= 0 {
		req.Limit = 100
	}
	req.Limit = min(req.Limit, 1000)
	if req.Progress && req.Namespace != "" && req.Layer != "" && req.Operation != "" {
		return s.listIndexed(ctx, req)
	}
	var page storeapi.Page
	for after := req.After; ; {
		w, err := s.walkFrom(ctx, nodes, &req, after)
		if err != nil {
			return storeapi.Page{}, err
		}
		page.Scans = page.Scans || !w.fromIndex
		if err := s.fillPage(ctx, &page, &req, after, w); err != nil || page.Next != "" {
			return page, err
		}
		s.walks.forget(w)
		if !w.more {
			return page, nil
		}
		after = w.end
	}
}

// fillPage adds the selected records of the walk, which come after last, to the page until it is
// full. The next page then begins after the last name before the first record that did not fit.
func (s *Store) fillPage(ctx context.Context, page *storeapi.Page, req *storeapi.ListRequest, last string, w *walk) error {
	names := w.namesAfter(last)
	for at := 0; at < len(names); at += 200 {
		chunk := names[at:min(at+200, len(names))]
		records, errs, err := s.readHeads(ctx, chunk)
		if err != nil {
			*page = storeapi.Page{}
			return err
		}
		if w.fromIndex {
			s.removeFinished(ctx, chunk, records, errs)
		}
		page.Read += len(records)
		for i, rec := range records {
			switch {
			case errs[i] != nil:
				page.Unreadable = append(page.Unreadable, storeapi.Unreadable{Key: rec.Key, Err: errs[i]})
			case !matchesState(req, &rec):
			case len(page.Records) == req.Limit:
				page.Next = last
				return nil
			default:
				page.Records = append(page.Records, rec)
			}
			last = chunk[i]
		}
	}
	return nil
}

// matchesState reports whether a record matches the requested state.
func matchesState(req *storeapi.ListRequest, rec *storeapi.Record) bool {
	return rec.State != 0 && (!req.InDoubt || rec.InDoubt() || req.Asked && rec.Asked()) && (req.State == 0 || rec.State == req.State) &&
		(!req.Progress || !rec.State.Finished() && rec.Answer.Codec != "")
}

// matchesKey reports whether text is a key of this store with the requested parts.
func matchesKey(of *storeapi.ListRequest, text string) bool {
	var k storeapi.StoreKey
	if k.UnmarshalText([]byte(text)) != nil {
		return false // something else with the same prefix
	}
	for _, f := range [][2]string{
		{of.Namespace, k.Namespace},
		{of.Layer, k.Layer},
		{of.Tenant, k.Tenant},
		{of.Operation, k.Operation},
	} {
		if f[0] != "" && f[0] != f[1] {
			return false
		}
	}
	return true
}

// readHeads reads records without the bodies of their answers. A record that cannot be read has an
// error, and only its key.
func (s *Store) readHeads(ctx context.Context, names []string) (records []storeapi.Record, errs []error, err error) {
	calls := make([]redisclient.Call, len(names))
	for i, name := range names {
		calls[i] = redisclient.Call{Script: lookup, Keys: []string{s.o.Prefix + name}, Args: []string{"1"}}
	}
	replies := redisnode.EvalMany(ctx, s.client, calls)
	records, errs = make([]storeapi.Record, len(names)), make([]error, len(names))
	for i, r := range replies {
		var key storeapi.StoreKey
		if err := key.UnmarshalText([]byte(names[i])); err != nil {
			return nil, nil, err
		}
		a, err := s.readReply(r)
		if err == nil {
			records[i], err = a.parseRecord(key)
		} else if !isRecordRefusal(err) {
			return nil, nil, err
		}
		if err != nil {
			records[i], errs[i] = storeapi.Record{Key: key}, err
		}
		records[i].Answer.Body = nil
	}
	return records, errs, nil
}

// isRecordRefusal reports whether the server has refused a single record: the script cannot read
// its format, or it is damaged, or no record.
func isRecordRefusal(err error) bool {
	var refused redisclient.Error
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Code() {
	case "RSFORMAT", "WRONGTYPE":
		return true
	case "NOPERM": // of the user
		return false
	}
	return strings.Contains(string(refused), "user_script") // the script has failed on it
}
