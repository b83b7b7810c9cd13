package mqidem

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/errortest"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestDispositionsAreFrozen: each error keeps what it means for a message: if its handler has
// returned it, and if the engine has refused its key.
func TestDispositionsAreFrozen(t *testing.T) {
	t.Parallel()
	e := retrysafe.New(memstore.New(nil), nil)
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	w := newOnceHandler(e, "mq", "billing", nil)
	actions := []string{"ack", "requeue", "deadLetter", "hold", "leave"}
	var b strings.Builder
	for _, c := range errortest.All() {
		opts := Options{Backoff: func(int) time.Duration { return time.Minute }}
		d := &inFlight{message: new(Message), handling: new(handling)}
		p := newConsumer(t.Context(), nil, opts).decideFailed(d, c.Err)
		why := ""
		if p.reason != nil {
			why = p.reason.Why
		}
		m := &Message{ID: "1", passed: &handling{history: new(history), deadLetter: func(_ context.Context, r Reason) error {
			why += " and " + r.Why
			return nil
		}}}
		r := w.refusalResult(t.Context(), &messageTry{m: m}, c.Err)
		fmt.Fprintf(&b, "%s\n  handler: %s %q after %v\n  key: result %d, error %v\n  why: %s\n", c.Name, actions[p.action], p.outcome, p.delay, r.kind, r.err != nil, why)
	}
	assert.Golden(t, "testdata/dispositions_v1.golden", b.String())
}
