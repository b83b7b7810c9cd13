package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// writes is a transaction that keeps the headers that it is asked to write.
type writes struct{ headers []string }

func (w *writes) Exec(_ context.Context, query string, args ...any) (int64, error) {
	if value, ok := insertedValue(query, args, "headers").([]byte); ok {
		w.headers = append(w.headers, string(value))
	}
	return 1, nil
}

// insertedValue returns the argument that an INSERT writes to column, or nil if there is none.
func insertedValue(query string, args []any, column string) any {
	columns, values, _ := strings.Cut(query, "VALUES")
	_, columns, _ = strings.Cut(columns, "(")
	_, values, _ = strings.Cut(values, "(")
	listed, n := strings.Split(values, ","), 0
	for i, name := range strings.Split(columns, ",") {
		argument := strings.TrimSpace(listed[min(i, len(listed)-1)]) == "?"
		if strings.Trim(name, " )\n\t") == column && argument {
			return args[n]
		}
		if argument {
			n++
		}
	}
	return nil
}

func (w *writes) QueryRow(context.Context, string, []any, ...any) error { return errors.New("no rows") }
func (w *writes) Dialect() dbtx.Dialect                                 { return outbox.SQLite }

type traceKey struct{}

// TestPrepare: headers of the caller's context are stored with each message, and the caller's
// messages stay as they were.
func TestPrepare(t *testing.T) {
	t.Parallel()
	box, err := outbox.New(new(sql.DB), outbox.SQLite, &outbox.Options{Prepare: func(ctx context.Context, m *outbox.Message) {
		m.Headers["traceparent"], _ = ctx.Value(traceKey{}).(string)
	}})
	assert.NoError(t, err, "outbox")
	ctx := context.WithValue(t.Context(), traceKey{}, "00-trace")
	own := map[string]string{"mine": "yes"}
	tx, given := new(writes), []outbox.Message{{Topic: "a", Headers: own}, {Topic: "b"}}
	assert.NoError(t, box.Add(ctx, tx, given...), "add")
	assert.Equal(t, strings.Join(tx.headers, " "), `{"mine":"yes","traceparent":"00-trace"} {"traceparent":"00-trace"}`, "stored headers")
	assert.Equal(t, len(own), 1, "the caller's headers")
	assert.True(t, given[1].Headers == nil, "the caller's message")

	box, err = outbox.New(new(sql.DB), outbox.SQLite, &outbox.Options{Prepare: func(_ context.Context, m *outbox.Message) { m.Headers["x"] = "a\nb" }})
	assert.NoError(t, err, "outbox")
	err = box.Add(ctx, tx, outbox.Message{Topic: "a"})
	assert.True(t, err != nil && strings.Contains(err.Error(), "cannot be sent"), "what Prepare adds is checked: %v", err)
}
