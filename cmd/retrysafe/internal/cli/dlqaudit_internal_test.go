package cli

import (
	"context"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// countingLetters is a dead-letter queue that counts its walks.
type countingLetters struct {
	mqidem.DeadLetters

	letters []*mqidem.DeadLetter
	walks   int
}

func (w *countingLetters) Walk(ctx context.Context, see func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) error {
	w.walks++
	for _, m := range w.letters {
		if _, err := see(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

func letterOf(why, key string) *mqidem.DeadLetter {
	return &mqidem.DeadLetter{Message: &mqidem.Message{ID: why}, Reason: mqidem.Reason{Why: why, Key: key, At: time.Now()}}
}

// TestDisposeWalksOnce: the queue is walked once. The log is that of the record of the first
// message that is selected; without a record, that of --namespace, and on a store that services
// share there is no default.
func TestDisposeWalksOnce(t *testing.T) {
	t.Parallel()
	key, err := storeapi.StoreKey{Namespace: "shop", Layer: "mq", Key: storeapi.Key{Operation: "stock", ID: "1"}}.MarshalText()
	assert.NoError(t, err, "key")
	for name, tt := range map[string]struct {
		flags dlqFlags
		log   string // the namespace that has the entries
		fails bool
	}{
		"by its record":      {dlqFlags{why: "tries"}, "shop", false},
		"no record":          {dlqFlags{why: "no-id"}, "app", false},
		"no record, named":   {dlqFlags{why: "no-id", keysFlags: keysFlags{namespace: "b"}}, "b", false},
		"no record, shared":  {dlqFlags{why: "no-id", keysFlags: keysFlags{store: "redis://x"}}, "", true},
		"nothing selected":   {dlqFlags{why: "poison"}, "", false},
		"its record, shared": {dlqFlags{why: "tries", keysFlags: keysFlags{store: "redis://x"}}, "shop", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queue := &countingLetters{letters: []*mqidem.DeadLetter{letterOf("no-id", ""), letterOf("tries", string(key)), letterOf("tries", string(key))}}
			store := memstore.New(nil)
			flags := tt.flags
			flags.all, flags.queue, flags.operator = true, "q", operator{"ann", "x"}
			if flags.store == "" {
				flags.store = "memory:"
			}
			d := &dlqSession{flags: &flags, deadLetters: admin.NewDeadLetters(queue, nil, nil), store: store}
			did := 0
			_, err := d.disposeLetters(t.Context(), "discard", nil, func(choice *admin.Choice) (admin.Disposed, error) {
				out, err := d.deadLetters.Discard(t.Context(), choice)
				did = out.Done
				return out, err
			})
			assert.Equal(t, err != nil, tt.fails, "error %v", err)
			assert.Equal(t, queue.walks, 1, "walks")
			for _, namespace := range []string{"app", "shop", "b"} {
				entries, _, err := admin.NewAudit(store, namespace, 0).Read(t.Context(), time.Now(), 0, 10)
				assert.NoError(t, err, "read")
				want := 0
				if namespace == tt.log {
					want = 2
				}
				assert.Equal(t, len(entries), want, "entries in %s", namespace)
			}
			assert.Equal(t, did > 0, tt.log != "", "%d were discarded", did)
		})
	}
}
