package natsidem

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/retrysafe/retrysafe/mqidem"
)

// consumerTrust tracks whether the other end of the connection still has the consumer that was
// opened. An ack names a message by a number. A new stream starts at one again, like one in memory
// after a restart. An old ack would then settle a message that no consumer has seen. So after each
// reconnection nothing is settled until the consumer was checked.
type consumerTrust struct {
	checkedReconnects atomic.Uint64 // the reconnections after which the consumer was checked
	lost              atomic.Bool

	mu      sync.Mutex
	changed chan struct{} // closed at each change
}

func (t *consumerTrust) init(nc *nats.Conn) {
	t.changed = make(chan struct{})
	t.checkedReconnects.Store(nc.Stats().Reconnects)
}

// isCurrent reports whether an answer that is sent now reaches the consumer.
func (t *consumerTrust) isCurrent(nc *nats.Conn) bool {
	return nc.IsConnected() && nc.Stats().Reconnects == t.checkedReconnects.Load() && !t.lost.Load()
}

// markCurrent records that the consumer is the same after this many reconnections.
func (t *consumerTrust) markCurrent(reconnects uint64) {
	t.checkedReconnects.Store(reconnects)
	t.notifyWaiters()
}

// markLost records that it is another consumer.
func (t *consumerTrust) markLost() {
	t.lost.Store(true)
	t.notifyWaiters()
}

func (t *consumerTrust) notifyWaiters() {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.changed)
	t.changed = make(chan struct{})
}

// waitUntilCurrent waits until isCurrent is true. The returned channel is closed when that may have
// changed.
func (t *consumerTrust) waitUntilCurrent(ctx context.Context, nc *nats.Conn, ended <-chan struct{}) (changed <-chan struct{}, err error) {
	for {
		t.mu.Lock()
		changed = t.changed
		t.mu.Unlock()
		select {
		case <-ended:
			return nil, mqidem.ErrStale
		default:
		}
		if t.isCurrent(nc) {
			return changed, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ended:
			return nil, mqidem.ErrStale
		}
	}
}

// request makes a request. It repeats the request if the connection was lost, since the answer was
// lost with it.
func (t *consumerTrust) request(ctx context.Context, nc *nats.Conn, ended <-chan struct{}, subject string, word []byte) error {
	for {
		changed, err := t.waitUntilCurrent(ctx, nc, ended)
		if err != nil {
			return err
		}
		asking, end := context.WithCancel(ctx)
		go func() {
			select {
			case <-changed:
				end()
			case <-asking.Done():
			}
		}()
		_, err = nc.RequestWithContext(asking, subject, word)
		end()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.Canceled) {
			return err
		}
	}
}

var errConnectionLost = errors.New("the connection was lost, and the answer with it")

// whileConnected returns a context that also ends with the connection, on which a request then gets
// no answer.
func whileConnected(ctx context.Context, nc *nats.Conn) (context.Context, context.CancelFunc) {
	lost := nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	ctx, cut := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-lost:
			cut(errConnectionLost)
		case <-ctx.Done():
		}
		nc.RemoveStatusListener(lost)
	}()
	return ctx, func() { cut(nil) }
}
