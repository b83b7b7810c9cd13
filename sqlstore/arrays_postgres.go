package sqlstore

import (
	"context"
	"encoding/hex"
	"strconv"
	"strings"
)

// arrays reads and writes many rows of PostgreSQL with one statement, each column as one array. So
// the server parses the same statement whatever the number of rows.
type arrays struct {
	*Store
	load string
}

func (a arrays) loadMany(ctx context.Context, w querier, ids []recordID) (map[recordID]loaded, loaded, error) {
	var b strings.Builder
	b.Grow(len(ids) * 68)
	for i := range ids {
		b.WriteByte("{,"[min(i, 1)])
		arrayValue(&b, ids[i][:])
	}
	return a.loadAll(ctx, w, a.load, b.String()+"}")
}

func (arrays) surely(c *change) bool { return surely(c) }

func (a arrays) writeMany(ctx context.Context, w execer, made, changed []*change) error {
	if err := a.write(ctx, w, a.queries.makeMany, made); err != nil {
		return err
	}
	return a.write(ctx, w, a.queries.putMany, changed)
}

func (a arrays) write(ctx context.Context, w execer, query string, rows []*change) error {
	if len(rows) == 0 {
		return nil
	}
	columns := make([]strings.Builder, len(rows[0].args()))
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
	res, err := w.ExecContext(ctx, query, args...)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n != int64(len(rows)) {
		err = errMadeMeanwhile
	}
	return err
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
