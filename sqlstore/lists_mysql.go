package sqlstore

import (
	"context"
	"errors"
	"strings"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// lists reads and writes many rows of MySQL with one statement, which has a placeholder for each
// value.
type lists struct {
	db    *database
	locks bool // the rows, to write them
}

func (l lists) loadMany(ctx context.Context, w querier, ids []recordID) (map[recordID]loaded, loaded, error) {
	args := make([]any, len(ids))
	for i := range ids {
		args[i] = ids[i][:]
	}
	return l.db.loadAll(ctx, w, strings.Replace(l.db.queries().many(l.locks), "(?)", "("+sqlkit.List(len(ids))+")", 1), args...)
}

func (lists) surely(c *change) bool { return c.sawNone() }

// insertsFirst: the server does not tell which records were there.
func (lists) insertsFirst() bool { return false }

func (l lists) writeMany(ctx context.Context, w sqlkit.Execer, made, changed []*change) error {
	if len(made) > 0 {
		query, args := l.insert(l.db.queries().makeMany, made)
		r, err := w.ExecContext(ctx, query, args...)
		if err != nil {
			return err
		}
		if all, err := l.db.queries().made(r); err != nil || !all {
			return errMadeMeanwhile
		}
	}
	if len(changed) > 0 {
		query, args := l.insert(l.db.queries().putMany, changed)
		if _, err := w.ExecContext(ctx, query, args...); err != nil {
			return err
		}
	}
	return nil
}

// insert repeats the single row of values in a statement for all rows.
func (l lists) insert(query string, rows []*change) (string, []any) {
	row := "(" + sqlkit.List(len(inserted)) + ")"
	args := make([]any, 0, len(rows)*len(inserted))
	for _, c := range rows {
		args = append(args, c.args()...)
	}
	return strings.Replace(query, row, strings.TrimSuffix(strings.Repeat(row+", ", len(rows)), ", "), 1), args
}

// errMadeMeanwhile means that another call has inserted a record that an earlier look did not find.
var errMadeMeanwhile = errors.New("sqlstore: somebody else has made a record that was not there")
