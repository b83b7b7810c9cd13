package filter

import (
	"context"
	"database/sql"
	"iter"

	"github.com/retrysafe/retrysafe"
)

// Rows are the ids of a query that has one column, for Rebuild. They are read as they come, and the
// rows are closed at the end. Give it the answer of QueryContext as it is: an error of the query is
// one of the iteration.
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

// Records are the ids of records that a store lists, for Rebuild: id says of each what was or would
// be given to Add, nil that it is to be left out. Pages are as large as r.Limit says.
func Records(ctx context.Context, store retrysafe.Lister, r retrysafe.ListRequest, id func(*retrysafe.Record) []byte) iter.Seq2[[]byte, error] {
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
