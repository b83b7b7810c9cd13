package tx_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
)

// TestOutboxOrderOfALateCommit: of two transactions the one comes first whose Add was first, if the
// second began to add after the first had committed; also while other keys are held up.
func TestOutboxOrderOfALateCommit(t *testing.T) {
	t.Parallel()
	shops.EachServer(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		s := server.Shop(t)
		box := newBox(t, s, nil)
		got := new(broker)
		got.setRefused(func(m outbox.Outgoing) error {
			if strings.HasPrefix(m.Key, "dead") {
				return outbox.Permanent(errors.New("refused"))
			}
			return nil
		})
		var all []outbox.Message
		for i := range 400 {
			all = append(all, outbox.Message{ID: fmt.Sprint("dead-", i), Topic: "orders", Key: fmt.Sprint("dead", i)})
		}
		all = append(all, outbox.Message{ID: "zero", Topic: "orders", Key: "ada"})
		addMessages(t, s, box, all...)
		_, stop := runRelay(t, box, got, nil)
		awaitPublished(t, func() bool {
			s, err := box.Stats(t.Context())
			return err == nil && s.Dead == 400 && len(got.idsOf("ada")) == 1
		}, "dead ones")
		assert.NoError(t, stop(), "Run")
		part := got.got[0].Partition

		late, err := s.DB.BeginTx(t.Context(), nil)
		assert.NoError(t, err, "begin")
		assert.NoError(t, box.Add(t.Context(), dbtx.SQL(late, box.Dialect()), outbox.Message{ID: "first", Topic: "orders", Key: "ada"}), "Add")
		all = nil
		for i := range 400 {
			// few, as a pass that takes more than a second begins again, and finds the first
			all = append(all, outbox.Message{ID: fmt.Sprint("other-", i), Topic: "orders", Key: fmt.Sprint("k", i)})
		}
		addMessages(t, s, box, all...)
		n := 0
		var once sync.Once
		slow := outbox.OneByOne(func(ctx context.Context, m outbox.Outgoing) error {
			if m.Partition == part {
				if n++; n > 6 {
					once.Do(func() {
						assert.NoError(t, late.Commit(), "the first commits")
						addMessages(t, s, box, outbox.Message{ID: "second", Topic: "orders", Key: "ada"})
					})
				}
			}
			return got.Publish(ctx, []outbox.Outgoing{m})[0]
		})
		runRelay(t, box, slow, &outbox.RelayOptions{Batch: 3})
		awaitPublished(t, func() bool { return len(got.idsOf("ada")) == 3 }, "all of the key are published")
		assert.Equal(t, fmt.Sprint(got.idsOf("ada")), "[zero first second]", "the order of the key")
	})
}
