package redisstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/redisclient"
)

// walk has the names of a list in progress, so that its pages do not scan the server again. Another
// process, or a late page, scans again. The order is by name, and each page begins after the last
// name of the page before.
type walk struct {
	of    retrysafe.ListRequest
	names []string
	at    time.Time
}

// walkTime is how long the names of a list are kept between two pages.
const walkTime = time.Minute

// List implements [retrysafe.Lister] for all primaries. Records are in the order of their keys'
// text. It scans the store's names once.
func (s *Store) List(ctx context.Context, req retrysafe.ListRequest) (retrysafe.Page, error) {
	nodes, ok := s.client.(redisclient.Nodes)
	if !ok {
		return retrysafe.Page{}, errors.ErrUnsupported
	}
	if req.Limit <= 0 {
		req.Limit = 100
	}
	req.Limit = min(req.Limit, 1000)
	if req.Progress && req.Namespace != "" && req.Layer != "" && req.Operation != "" {
		return s.listIndexed(ctx, req)
	}
	names, err := s.names(ctx, nodes, req)
	if err != nil {
		return retrysafe.Page{}, err
	}
	at, found := slices.BinarySearch(names, req.After)
	if found {
		at++
	}
	var page retrysafe.Page
	for at < len(names) {
		chunk := names[at:min(at+200, len(names))]
		records, errs, err := s.heads(ctx, chunk)
		if err != nil {
			return retrysafe.Page{}, err
		}
		for i, rec := range records {
			if errs[i] != nil {
				page.Unreadable = append(page.Unreadable, retrysafe.Unreadable{Key: rec.Key, Err: errs[i]})
				continue
			}
			if !selected(&req, &rec) {
				continue
			}
			if len(page.Records) == req.Limit {
				page.Next = names[at+i-1]
				return page, nil
			}
			page.Records = append(page.Records, rec)
		}
		at += len(chunk)
	}
	s.forget()
	return page, nil
}

// forget drops the names of a list that has ended.
func (s *Store) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.walk = nil
}

// selected reports whether a record matches the requested state.
func selected(req *retrysafe.ListRequest, rec *retrysafe.Record) bool {
	return rec.State != 0 && (!req.InDoubt || rec.InDoubt()) && (req.State == 0 || rec.State == req.State) &&
		(!req.Progress || !rec.State.Finished() && rec.Answer.Codec != "")
}

// names returns the texts of all keys that match the request's parts, in order.
func (s *Store) names(ctx context.Context, nodes redisclient.Nodes, req retrysafe.ListRequest) ([]string, error) {
	of := req
	of.After, of.Limit, of.State, of.InDoubt, of.Progress = "", 0, 0, false, false
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.walk; w != nil && req.After != "" && w.of == of && time.Since(w.at) < walkTime {
		w.at = time.Now()
		return w.names, nil
	}
	seen := map[string]bool{}
	err := nodes.EachPrimary(ctx, func(ctx context.Context, do func(context.Context, ...string) redisclient.Reply) error {
		for cursor := "0"; ; {
			r := do(ctx, "SCAN", cursor, "MATCH", escaped(s.o.Prefix)+"*", "COUNT", "1000")
			if r.Err != nil {
				return refusal(r.Err)
			}
			next, keys, ok := scanned(r.Value)
			if !ok {
				return errors.New("redisstore: the server's reply to SCAN makes no sense")
			}
			for _, key := range keys {
				if text := strings.TrimPrefix(key, s.o.Prefix); selects(&of, text) {
					seen[text] = true
				}
			}
			if cursor = next; cursor == "0" {
				return nil
			}
		}
	})
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(seen))
	for name := range seen {
		names = append(names, name)
	}
	slices.Sort(names)
	w := &walk{of, names, time.Now()}
	s.walk = w
	time.AfterFunc(walkTime, func() { s.expire(w) })
	return names, nil
}

// expire drops the names of a list if no caller continues it.
func (s *Store) expire(w *walk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch left := walkTime - time.Since(w.at); {
	case s.walk != w:
	case left <= 0:
		s.walk = nil
	default:
		time.AfterFunc(left, func() { s.expire(w) })
	}
}

// escaped escapes the pattern characters of SCAN.
func escaped(prefix string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(prefix)
}

func scanned(v any) (next string, keys []string, ok bool) {
	pair, _ := v.([]any)
	if len(pair) != 2 {
		return "", nil, false
	}
	next, ok = pair[0].(string)
	list, isList := pair[1].([]any)
	for _, k := range list {
		name, isName := k.(string)
		keys, ok = append(keys, name), ok && isName
	}
	return next, keys, ok && isList
}

// selects reports whether text is a key of this store with the requested parts.
func selects(of *retrysafe.ListRequest, text string) bool {
	var k retrysafe.StoreKey
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

// heads reads records without the bodies of their answers. A record that cannot be read has an
// error, and only its key.
func (s *Store) heads(ctx context.Context, names []string) (records []retrysafe.Record, errs []error, err error) {
	calls := make([]redisclient.Call, len(names))
	for i, name := range names {
		calls[i] = redisclient.Call{Script: lookup, Keys: []string{s.o.Prefix + name}, Args: []string{"1"}}
	}
	replies := make([]redisclient.Reply, len(calls))
	if p, ok := s.client.(redisclient.Pipeliner); ok {
		replies = p.EvalMany(ctx, calls)
	} else {
		for i, c := range calls {
			replies[i] = s.client.Eval(ctx, c)
		}
	}
	records, errs = make([]retrysafe.Record, len(names)), make([]error, len(names))
	for i, r := range replies {
		var key retrysafe.StoreKey
		if err := key.UnmarshalText([]byte(names[i])); err != nil {
			return nil, nil, err
		}
		a, err := s.read(r)
		if err == nil {
			records[i], err = a.record(key)
		} else if !ofTheRecord(err) {
			return nil, nil, err
		}
		if err != nil {
			records[i], errs[i] = retrysafe.Record{Key: key}, err
		}
		records[i].Answer.Body = nil
	}
	return records, errs, nil
}

// ofTheRecord reports whether the server has refused a single record: the script cannot read its
// format, or it is damaged, or no record.
func ofTheRecord(err error) bool {
	var refused redisclient.Error
	if !errors.As(err, &refused) {
		return false
	}
	code := refused.Code()
	// the script has failed on it
	return code == "RSFORMAT" || code == "WRONGTYPE" || strings.Contains(string(refused), "user_script")
}
