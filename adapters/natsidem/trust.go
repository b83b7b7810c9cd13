package natsidem

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/retrysafe/retrysafe/mqidem"
)

// trust tracks whether the other end of the connection still has the consumer that was opened. An
// ack names a message by a number. A new stream starts at one again, like one in memory after a
// restart. An old ack would then settle a message that no consumer has seen. So after each
// reconnection nothing is settled until the consumer was checked.
type trust struct {
	seen atomic.Uint64 // the reconnections after which the consumer was checked
	lost atomic.Bool

	mu      sync.Mutex
	changed chan struct{} // closed at each change
}

func (t *trust) init(nc *nats.Conn) {
	t.changed = make(chan struct{})
	t.seen.Store(nc.Stats().Reconnects)
}

// sure reports whether an answer that is sent now reaches the consumer.
func (t *trust) sure(nc *nats.Conn) bool {
	return nc.IsConnected() && nc.Stats().Reconnects == t.seen.Load() && !t.lost.Load()
}

// trust records that the consumer is the same after this many reconnections.
func (t *trust) trust(reconnects uint64) {
	t.seen.Store(reconnects)
	t.tell()
}

// lose records that it is another consumer.
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

// await waits until sure is true. The returned channel is closed when that may have changed.
func (t *trust) await(ctx context.Context, nc *nats.Conn, ended <-chan struct{}) (changed <-chan struct{}, err error) {
	for {
		t.mu.Lock()
		changed = t.changed
		t.mu.Unlock()
		select {
		case <-ended:
			return nil, mqidem.ErrStale
		default:
		}
		if t.sure(nc) {
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

// ask makes a request. It repeats the request if the connection was lost, since the answer was lost
// with it.
func (t *trust) ask(ctx context.Context, nc *nats.Conn, ended <-chan struct{}, subject string, word []byte) error {
	for {
		changed, err := t.await(ctx, nc, ended)
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

var errCut = errors.New("the connection was lost, and the answer with it")

// whileConnected returns a context that also ends with the connection, on which a request then gets
// no answer.
func whileConnected(ctx context.Context, nc *nats.Conn) (context.Context, context.CancelFunc) {
	lost := nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	ctx, cut := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-lost:
			cut(errCut)
		case <-ctx.Done():
		}
		nc.RemoveStatusListener(lost)
	}()
	return ctx, func() { cut(nil) }
}
