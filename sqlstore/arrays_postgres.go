package sqlstore

import (
	"context"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/storeapi"
)

// arrays reads and writes many rows of PostgreSQL with one statement, each column as one array. So
// the server parses the same statement whatever the number of rows.
type arrays struct {
	db    *database
	locks bool // the rows, to write them
}

func (a arrays) loadMany(ctx context.Context, w querier, ids []recordID) (map[recordID]loaded, loaded, error) {
	var b strings.Builder
	b.Grow(len(ids) * 68)
	for i := range ids {
		b.WriteByte("{,"[min(i, 1)])
		arrayValue(&b, ids[i][:])
	}
	return a.db.loadAll(ctx, w, a.db.queries().many(a.locks), b.String()+"}")
}

func (arrays) surely(c *change) bool { return c.sawNone() }

func (arrays) insertsFirst() bool { return true }

func (a arrays) writeMany(ctx context.Context, w sqlkit.Execer, made, changed []*change) error {
	if len(made) > 0 {
		if err := a.insert(ctx, w, made); err != nil {
			return err
		}
		// The insert may have waited for a sweep, which has removed a record and raised the floor.
		var floor int64
		if err := w.QueryRowContext(ctx, a.db.queries().floor).Scan(&floor); err != nil {
			return err
		}
		if storeapi.Fence(floor) > made[0].l.floor { //nolint:gosec // fences stay below 2^53
			return errMadeMeanwhile
		}
	}
	if len(changed) == 0 {
		return nil
	}
	_, err := w.ExecContext(ctx, a.db.queries().putMany, arrayArgs(changed)...)
	return err
}

// insert marks those changes to be made alone whose record was there.
func (a arrays) insert(ctx context.Context, w sqlkit.Execer, made []*change) error {
	rows, err := w.QueryContext(ctx, a.db.queries().makeMany, arrayArgs(made)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	there := make(map[recordID]*change, len(made))
	for _, c := range made {
		there[c.id] = c
	}
	for rows.Next() {
		var id []byte
		if err := rows.Scan(&id); err != nil {
			return err
		}
		if len(id) == len(recordID{}) {
			delete(there, recordID(id))
		}
	}
	for _, c := range there {
		c.met()
	}
	return rows.Err()
}

// arrayArgs returns an array for each column of inserted.
func arrayArgs(rows []*change) []any {
	columns := make([]strings.Builder, len(inserted))
	for i, c := range rows {
		for j, v := range c.args() {
			columns[j].WriteByte("{,"[min(i, 1)])
			arrayValue(&columns[j], v)
		}
	}
	args := make([]any, len(columns))
	for j := range columns {
		args[j] = columns[j].String() + "}"
	}
	return args
}

// arrayValue writes a value in the text format of a PostgreSQL array.
func arrayValue(b *strings.Builder, v any) {
	switch v := v.(type) {
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case []byte:
		b.WriteString(`\\x`)
		_, _ = hex.NewEncoder(b).Write(v)
	default:
		b.WriteString("NULL")
	}
}
