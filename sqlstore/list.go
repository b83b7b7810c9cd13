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

// List implements [retrysafe.Lister]. Records are in the order of their primary keys: meaningless
// to people, but stable. The cursor is the last key of the page.
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
		// load checks the version, as in any other call; there is no record with a zero id.
		l, err := s.load(ctx, db, s.queries.load, recordID{})
		if err != nil {
			return err
		}
		page, err = s.page(ctx, db, &req, after, limit, l.now)
		return err
	})
	return page, s.failed("list", err)
}

// page reads one record more than it returns, to know whether there is a next page.
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

// listQuery uses the index of the key parts only if the request names whose records are meant.
// Otherwise each page would have to sort all matching records, so it uses the primary key, or the
// index of records in progress. On SQLite a + hides a column from the other index.
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
		// A literal, so that the partial index can be used.
		query += " AND r.state = 2 AND r.lease_end <= ?"
		args = append(args, now)
	}
	if req.Progress {
		query += " AND r.state IN (2, 5) AND r.answer_codec <> ''"
	}
	return s.queries.numbered(query + " ORDER BY r.id LIMIT ?"), append(args, limit)
}
