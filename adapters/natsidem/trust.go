package natsidem

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/retrysafe/retrysafe/mqidem"
)

// trust says whether the other end of the connection still has the consumer that was opened. An ack names a message by a number, and a
// stream that was made anew, as one in memory is after a restart, counts from one again: an old ack would settle a message that nobody
// has seen. So after each reconnection nothing is settled before somebody has looked.
type trust struct {
	seen atomic.Uint64 // the reconnections that somebody has looked after
	lost atomic.Bool

	mu      sync.Mutex
	changed chan struct{} // closed at each change
}

func (t *trust) init(nc *nats.Conn) {
	t.changed = make(chan struct{})
	t.seen.Store(nc.Stats().Reconnects)
}

// sure says whether what is sent now reaches the consumer.
func (t *trust) sure(nc *nats.Conn) bool {
	return nc.IsConnected() && nc.Stats().Reconnects == t.seen.Load() && !t.lost.Load()
}

// trust is told that the consumer is the same after so many reconnections.
func (t *trust) trust(reconnects uint64) {
	t.seen.Store(reconnects)
	t.tell()
}

// lose is told that it is another one.
func (t *trust) lose() {
	t.lost.Store(true)
	t.tell()
}

func (t *trust) tell() {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.changed)
	t.changed = make(chan struct{})
}

// await waits until it is sure.
func (t *trust) await(ctx context.Context, nc *nats.Conn, ended <-chan struct{}) error {
	for {
		t.mu.Lock()
		changed := t.changed
		t.mu.Unlock()
		select {
		case <-ended:
			return mqidem.ErrStale
		default:
		}
		if t.sure(nc) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
			return mqidem.ErrStale
		}
	}
}
