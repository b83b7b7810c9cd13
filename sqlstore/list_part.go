package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// mostRead limits how many records are read for one page.
const mostRead = 20_000

// part returns where the part of the records after a place ends, and how many it has. to is nil for
// the last one.
//
// A database that selects few records of many would read them all in one statement, which takes
// minutes, and no caller could tell how far it is. A part has all records, whether or not they are
// selected. If an index selects them, or the request takes all, the whole rest is one part.
func (l *listing) part(ctx context.Context, db sqlkit.Execer, from []byte, size int) (to []byte, n int, err error) {
	if !l.picks() {
		return nil, 0, nil
	}
	q := l.store.db.queries()
	after, args := ` FROM `+q.table+` r WHERE r.`+l.column+` > ?`, []any{from}
	if l.end != nil {
		after, args = after+` AND r.`+l.column+` < ?`, append(args, l.end)
	}
	err = db.QueryRowContext(ctx, q.numbered(`SELECT r.`+l.column+after+` ORDER BY r.`+l.column+` LIMIT 1 OFFSET ?`), append(args, size-1)...).Scan(&to)
	if !errors.Is(err, sql.ErrNoRows) {
		return to, size, err
	}
	err = db.QueryRowContext(ctx, q.numbered(`SELECT count(*)`+after), args...).Scan(&n)
	return nil, n, err
}

// picks reports whether the request is for some of the records that are read in the order of the
// column.
func (l *listing) picks() bool {
	if l.unfinished() {
		return false
	}
	if l.column == "parts" {
		return l.req.State != 0
	}
	return l.req.State != 0 || l.req.Namespace != "" || l.req.Layer != "" || l.req.Tenant != "" || l.req.Operation != ""
}
