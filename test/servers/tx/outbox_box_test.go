package tx_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// broker accepts messages, and records them in the order in which they came.
type broker struct {
	mu    sync.Mutex
	got   []outbox.Outgoing
	refus func(outbox.Outgoing) error // called before a message is accepted; nil: accept
}

func (b *broker) Publish(ctx context.Context, batch []outbox.Outgoing) []error {
	errs := make([]error, len(batch))
	for i, m := range batch {
		b.mu.Lock()
		refus := b.refus
		b.mu.Unlock()
		if refus != nil {
			errs[i] = refus(m)
		}
		if errs[i] == nil {
			b.mu.Lock()
			b.got = append(b.got, m)
			b.mu.Unlock()
		}
	}
	return errs
}

// setRefused sets which messages are refused.
func (b *broker) setRefused(f func(outbox.Outgoing) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refus = f
}

// idsOf returns the ids that have come, with duplicates, for one key or for all.
func (b *broker) idsOf(key string) (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.got {
		if key == "" || m.Key == key {
			all = append(all, m.ID)
		}
	}
	return all
}

// removeRepeats removes duplicates, and counts them.
func removeRepeats(ids []string) (once []string, repeats int) {
	seen := map[string]bool{}
	for _, id := range ids {
		if seen[id] {
			repeats++
			continue
		}
		seen[id] = true
		once = append(once, id)
	}
	return once, repeats
}

// newBox returns the outbox of a shop, and creates its tables.
func newBox(t *testing.T, s *shops.Shop, o *outbox.Options) *outbox.Outbox {
	t.Helper()
	if o == nil {
		o = &outbox.Options{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	box, err := outbox.New(s.DB, s.Store.Dialect(), o)
	assert.NoError(t, err, "an outbox")
	assert.NoError(t, box.Migrate(t.Context()), "Migrate")
	return box
}

// steadyRelay returns options with which a relay looks often, and loses its lease on no machine.
func steadyRelay() *outbox.RelayOptions {
	o := hastyRelay()
	o.Lease, o.Drain = time.Minute, time.Minute
	return o
}

// hastyRelay returns options with short times, for a relay whose lease has to expire.
func hastyRelay() *outbox.RelayOptions {
	return &outbox.RelayOptions{Lease: 5 * time.Second, Poll: 50 * time.Millisecond, MinWait: 10 * time.Millisecond, MaxWait: 100 * time.Millisecond, Drain: 5 * time.Second}
}

// runRelay runs a relay until the test or the returned function ends it.
func runRelay(t *testing.T, box *outbox.Outbox, p outbox.Publisher, o *outbox.RelayOptions) (relay *outbox.Relay, stop func() error) {
	t.Helper()
	if o == nil {
		o = steadyRelay()
	}
	relay, err := outbox.NewRelay(box, p, o)
	assert.NoError(t, err, "a relay")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(waits.Patience):
			return fmt.Errorf("Run has not returned for %v", waits.Patience)
		}
	})
	t.Cleanup(func() { _ = stop() })
	return relay, stop
}

// awaitPublished waits for what a relay does.
func awaitPublished(t *testing.T, ok func() bool, what string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waits.Patience)
	defer cancel()
	waits.Until(ctx, ok)
	assert.True(t, ok(), what, args...)
}

// addMessages adds messages in a separate transaction. If a key's row is locked, the callers must
// send one message of a key at a time.
func addMessages(t *testing.T, s *shops.Shop, box *outbox.Outbox, messages ...outbox.Message) {
	t.Helper()
	var err error
	for end := time.Now().Add(waits.Patience); time.Now().Before(end); { // SQLite has one writer
		if err = trySend(t.Context(), s.DB, box, messages...); !strings.Contains(fmt.Sprint(err), "SQLITE_BUSY") {
			break
		}
	}
	assert.NoError(t, err, "add messages")
}

func trySend(ctx context.Context, db *sql.DB, box *outbox.Outbox, messages ...outbox.Message) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := box.Add(ctx, dbtx.SQL(tx, box.Dialect()), messages...); err != nil {
		return err
	}
	return tx.Commit()
}

func countPending(t *testing.T, box *outbox.Outbox) int {
	t.Helper()
	s, err := box.Stats(t.Context())
	assert.NoError(t, err, "Stats")
	return s.Pending
}
