package sqlstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/protocol"
)

// List implements [retrysafe.Lister]. Records come in the order of their primary keys, which says
// nothing to people but stays; the cursor is the last one of the page.
func (s *Store) List(ctx context.Context, req retrysafe.ListRequest) (page retrysafe.Page, err error) {
	if err := s.enter(ctx); err != nil {
		return page, err
	}
	after, err := hex.DecodeString(req.After)
	if err != nil || len(after) != 0 && len(after) != sha256.Size {
		return page, errors.New("sqlstore: list: After is not what this store has returned; leave it empty for the first page, and then use Page.Next")
	}
	limit := min(req.Limit, 1000)
	if limit <= 0 {
		limit = 100
	}
	err = s.backend.read(ctx, long, func(ctx context.Context, db execer) error {
		// The version is checked as in any other call; the record of no key is absent.
		l, err := s.load(ctx, db, s.queries.load, recordID{})
		if err != nil {
			return err
		}
		page, err = s.page(ctx, db, &req, after, limit, l.now)
		return err
	})
	return page, s.failed("list", err)
}

// page reads one record more than it shows, to know whether there is a next page.
func (s *Store) page(ctx context.Context, db execer, req *retrysafe.ListRequest, after []byte, limit int, now protocol.Micros) (page retrysafe.Page, err error) {
	query, args := s.listQuery(req, after, now, limit+1)
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return page, err
	}
	defer rows.Close()
	var last []byte
	for n := 0; rows.Next(); n++ {
		if n == limit {
			page.Next = hex.EncodeToString(last)
			break
		}
		var id, namespace, layer, tenant, operation, key []byte
		var scan rowScan
		if err := rows.Scan(append([]any{&id, &namespace, &layer, &tenant, &operation, &key}, scan.fields()...)...); err != nil {
			return retrysafe.Page{}, err
		}
		last = id
		of := retrysafe.StoreKey{
			Namespace: string(namespace), Layer: string(layer),
			Key: retrysafe.Key{Tenant: string(tenant), Operation: string(operation), ID: string(key)},
		}
		row, err := scan.row()
		if err != nil {
			page.Unreadable = append(page.Unreadable, retrysafe.Unreadable{Key: of, Err: fmt.Errorf("sqlstore: %w", err)})
			continue
		}
		page.Records = append(page.Records, row.Record(of, now))
	}
	return page, rows.Err()
}

// listQuery goes by the index of the parts only where they say whose records are meant: each page
// would have to sort all that fit. Otherwise it goes by the primary key, or by the index of what is
// in progress; on SQLite a + hides a column from the other index.
func (s *Store) listQuery(req *retrysafe.ListRequest, after []byte, now protocol.Micros, limit int) (query string, args []any) {
	query, args = s.queries.list, []any{after, now}
	hide := s.queries.hide
	if req.Namespace != "" && req.Layer != "" && req.Tenant != "" && !req.InDoubt {
		hide = ""
	}
	for _, part := range []struct{ column, value string }{
		{"namespace", req.Namespace},
		{"layer", req.Layer},
		{"tenant", req.Tenant},
		{"operation", req.Operation},
	} {
		if part.value != "" {
			query += " AND " + hide + "r." + part.column + " = ?"
			args = append(args, []byte(part.value))
		}
	}
	if req.State != 0 {
		query += " AND r.state = ?"
		args = append(args, int64(req.State))
	}
	if req.InDoubt {
		// the number stands here so that the partial index fits
		query += " AND r.state = 2 AND r.lease_end <= ?"
		args = append(args, now)
	}
	if req.Progress {
		query += " AND r.state IN (2, 5) AND r.answer_codec <> ''"
	}
	return s.queries.numbered(query + " ORDER BY r.id LIMIT ?"), append(args, limit)
}
