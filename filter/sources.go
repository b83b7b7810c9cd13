package filter

import (
	"context"
	"database/sql"
	"iter"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Rows returns the ids of a query with one column, for Rebuild. It reads them as they arrive and
// closes the rows at the end. Pass the results of QueryContext directly: an error of the query
// becomes an error of the iteration.
func Rows(rows *sql.Rows, err error) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if err != nil {
			yield(nil, err)
			return
		}
		defer rows.Close()
		var id sql.RawBytes
		for rows.Next() {
			if err := rows.Scan(&id); err != nil {
				yield(nil, err)
				return
			}
			if !yield(id, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// Records returns the ids of a store's records, for Rebuild. For each record, id returns the bytes
// that Add gets, or nil to leave it out. The page size is r.Limit.
func Records(ctx context.Context, store storeapi.Lister, r storeapi.ListRequest, id func(*retrysafe.Record) []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for r := r; ; {
			page, err := store.List(ctx, r)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page.Records {
				if text := id(&page.Records[i]); text != nil && !yield(text, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			r.After = page.Next
		}
	}
}
