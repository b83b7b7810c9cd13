package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/sqlstore/dbtx"
)

// writes is a transaction that keeps what it is asked to write.
type writes struct{ args [][]any }

func (w *writes) Exec(_ context.Context, _ string, args ...any) (int64, error) {
	w.args = append(w.args, args)
	return 1, nil
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
	var stored []string
	for _, args := range tx.args {
		for _, a := range args {
			if b, ok := a.([]byte); ok && strings.HasPrefix(string(b), "{") {
				stored = append(stored, string(b))
			}
		}
	}
	assert.Equal(t, strings.Join(stored, " "), `{"mine":"yes","traceparent":"00-trace"} {"traceparent":"00-trace"}`, "stored headers")
	assert.Equal(t, len(own), 1, "the caller's headers")
	assert.True(t, given[1].Headers == nil, "the caller's message")

	box, err = outbox.New(new(sql.DB), outbox.SQLite, &outbox.Options{Prepare: func(_ context.Context, m *outbox.Message) { m.Headers["x"] = "a\nb" }})
	assert.NoError(t, err, "outbox")
	err = box.Add(ctx, tx, outbox.Message{Topic: "a"})
	assert.True(t, err != nil && strings.Contains(err.Error(), "cannot be sent"), "what Prepare adds is checked: %v", err)
}
