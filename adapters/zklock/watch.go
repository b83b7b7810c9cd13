package zklock

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/retrysafe/retrysafe/backoff"
)

// nodeWatch is a watch of the client. All waiters for a node share it: the client cannot end a
// watch, so waiters that try again must not create another one.
type nodeWatch struct {
	done chan struct{} // closed when waiters should look again
	err  error         // valid then
}

// waitForNode waits until the previous node or the own session is gone.
func (b *Backend) waitForNode(ctx context.Context, node string, gone <-chan struct{}) error {
	for {
		w, err := b.watchNode(node)
		if err != nil {
			return err
		}
		look := time.NewTimer(b.o.Session)
		select {
		case <-w.done:
			look.Stop()
			if w.err == nil || isNothingDone(w.err) {
				return w.err
			}
			if err := backoff.Pause(ctx, 50*time.Millisecond); err != nil {
				// the connection broke; the place in the queue still exists
				return err
			}
			continue
		case <-gone:
			look.Stop()
			return nil
		case <-ctx.Done():
			look.Stop()
			return context.Cause(ctx)
		case <-look.C: // the client may fail to set a watch again after a cut
		}
		there := true
		err = b.callClient(ctx, func() error {
			var err error
			there, _, err = b.conn.Exists(node)
			return err
		})
		if err == nil && !there {
			return nil
		}
	}
}

func (b *Backend) watchNode(node string) (*nodeWatch, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.watches[node]; w != nil {
		return w, nil
	}
	if b.closed {
		return nil, errClosed
	}
	w := &nodeWatch{done: make(chan struct{})}
	b.watches[node] = w
	b.tasks.Go(func() {
		_, _, events, err := b.conn.GetW(node)
		switch {
		case err == nil:
			<-events // also when the client has ended
		case !errors.Is(err, zk.ErrNoNode):
			w.err = stepError("watch the one before in the queue", err)
		}
		b.mu.Lock()
		delete(b.watches, node)
		b.mu.Unlock()
		close(w.done)
	})
	return w, nil
}
