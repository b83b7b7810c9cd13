package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/outbox"
)

// noTx is a transaction that accepts everything.
type noTx struct {
	dialect outbox.Dialect
	added   int
}

func (t *noTx) Dialect() outbox.Dialect { return t.dialect }
func (t *noTx) Exec(context.Context, string, ...any) (int64, error) {
	t.added++
	return 1, nil
}

func (t *noTx) QueryRow(context.Context, string, []any, ...any) error { return errors.New("not used") }

// TestLimits: values that a database or a broker would truncate are refused before anything is
// added. The error says what to do and shows no content.
func TestLimits(t *testing.T) {
	t.Parallel()
	box, err := outbox.New(new(sql.DB), outbox.PostgreSQL, &outbox.Options{MaxPayload: 10})
	assert.NoError(t, err, "New")
	long := strings.Repeat("secret", 200)
	for want, m := range map[string]outbox.Message{
		"the ID has 1200":          {ID: long, Topic: "t"},
		"the ID has 9":             {ID: "secret id", Topic: "t"},
		"the Topic has 0":          {},
		"the Topic has 1200":       {Topic: long},
		"the Topic has 8":          {Topic: "secret\n\n"},
		"the Key has 1200":         {Topic: "t", Key: long},
		"the ContentType has 1200": {Topic: "t", ContentType: long},
		"the Payload has 11":       {Topic: "t", Payload: make([]byte, 11)},
		"the Headers have":         {Topic: "t", Headers: map[string]string{"a": strings.Repeat("secret", 3000)}},
		"a name of the Headers":    {Topic: "t", Headers: map[string]string{"a:": "secret"}},
		"or its value":             {Topic: "t", Headers: map[string]string{"a": "secret\r\n"}},
	} {
		tx := &noTx{dialect: outbox.PostgreSQL}
		err := box.Add(t.Context(), tx, outbox.Message{Topic: "t"}, m)
		assert.Contains(t, fmt.Sprint(err), want, "the error")
		assert.Contains(t, fmt.Sprint(err), "message 2 of 2", "the error")
		assert.True(t, !strings.Contains(err.Error(), "secret"), "the error shows no content: %v", err)
		assert.Equal(t, tx.added, 0, "added")
	}
	assert.Contains(t, fmt.Sprint(box.Add(t.Context(), &noTx{dialect: outbox.MySQL}, outbox.Message{Topic: "t"})), "same database", "another dialect")
	most := outbox.Message{
		ID: strings.Repeat("a", 128), Topic: strings.Repeat("é", 127), Key: strings.Repeat("\xff", 512), ContentType: strings.Repeat("a", 255), Payload: make([]byte, 10),
	}
	assert.NoError(t, box.Add(t.Context(), &noTx{dialect: outbox.PostgreSQL}, most, outbox.Message{Topic: "t"}), "the largest")
}

// TestOptions: invalid options are refused with an error that says what to do.
func TestOptions(t *testing.T) {
	t.Parallel()
	db := new(sql.DB)
	for want, c := range map[string]struct {
		db *sql.DB
		d  outbox.Dialect
		o  outbox.Options
	}{
		"needs a database": {nil, outbox.SQLite, outbox.Options{}}, "is unknown": {db, 9, outbox.Options{}}, "table name": {db, outbox.MySQL, outbox.Options{Table: "a b"}},
		"MaxPayload": {db, outbox.MySQL, outbox.Options{MaxPayload: -1}}, "Keep": {db, outbox.MySQL, outbox.Options{Keep: -1}},
	} {
		_, err := outbox.New(c.db, c.d, &c.o)
		assert.Contains(t, fmt.Sprint(err), want, "the error")
	}
	box, err := outbox.New(db, outbox.SQLite, nil)
	assert.NoError(t, err, "New")
	none := outbox.OneByOne(func(context.Context, outbox.Outgoing) error { return nil })
	for want, o := range map[string]outbox.RelayOptions{
		"Batch is 1001": {Batch: 1001}, "MaxAttempts is -1": {MaxAttempts: -1}, "Connections is 33": {Connections: 33}, "Lease is 1ms": {Lease: time.Millisecond},
		"Poll is -1ns": {Poll: -1}, "PublishTimeout is -1ns": {PublishTimeout: -1},
	} {
		_, err := outbox.NewRelay(box, none, &o)
		assert.Contains(t, fmt.Sprint(err), want, "the error")
	}
	_, err = outbox.NewRelay(box, nil, nil)
	assert.Contains(t, fmt.Sprint(err), "needs a publisher", "without a publisher")
}

// TestOneByOne: messages go out in order, none after a failed one of its key, and none while the
// broker is unavailable.
func TestOneByOne(t *testing.T) {
	t.Parallel()
	var batch []outbox.Outgoing
	for _, id := range []string{"a1", "b1", "a2", "b2", "c1"} {
		batch = append(batch, outbox.Outgoing{Message: outbox.Message{ID: id, Key: id[:1]}})
	}
	var sent []string
	refuse := map[string]error{"a1": errors.New("no")}
	p := outbox.OneByOne(func(_ context.Context, m outbox.Outgoing) error {
		sent = append(sent, m.ID)
		return refuse[m.ID]
	})
	errs := p.Publish(t.Context(), batch)
	assert.Equal(t, strings.Join(sent, " "), "a1 b1 b2 c1", "sent")
	assert.ErrorIs(t, errs[2], outbox.ErrHeldUp, "what was held back")
	sent, refuse["b1"] = nil, outbox.Unavailable(errors.New("down"))
	errs = p.Publish(t.Context(), batch)
	assert.Equal(t, strings.Join(sent, " "), "a1 b1", "sent to a broker that is away")
	assert.True(t, errs[3] != nil && errs[4] != nil, "the rest is not confirmed")
}
