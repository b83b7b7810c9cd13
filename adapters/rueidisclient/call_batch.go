package rueidisclient

import (
	"context"
	"runtime"
	"sync"

	"github.com/retrysafe/retrysafe/redisclient"
)

// callBatch collects the calls that are sent together next. The first call starts a goroutine that
// sends them. Before it sends, it lets all other ready goroutines run. So under load many calls
// share one write, and one read of the server, and a lone call waits for no other.
type callBatch struct {
	mu    sync.Mutex
	calls []*waitingCall
	spare []*waitingCall // memory of a former batch
}

// waitingCall is one call with its caller.
type waitingCall struct {
	call redisclient.Call
	got  chan redisclient.Reply
}

var waitingCalls = sync.Pool{New: func() any { return &waitingCall{got: make(chan redisclient.Reply, 1)} }}

// maxBatch is the largest number of calls that are sent together and wait for each other's
// replies.
const maxBatch = 256

// sendWithOthers sends a call with others of the same moment. It returns no later than ctx ends;
// the call may then still be in flight.
func (c *Client) sendWithOthers(ctx context.Context, call redisclient.Call) redisclient.Reply {
	w := waitingCalls.Get().(*waitingCall) //nolint:errcheck,forcetypeassert // the pool has nothing else
	w.call = call
	c.nextBatch.mu.Lock()
	c.nextBatch.calls = append(c.nextBatch.calls, w)
	first := len(c.nextBatch.calls) == 1
	c.nextBatch.mu.Unlock()
	if first {
		go c.sendBatch() // it serves all callers, and must not end with the context of one
	}
	select {
	case r := <-w.got:
		w.call = redisclient.Call{}
		waitingCalls.Put(w)
		return r
	case <-ctx.Done():
		return redisclient.Reply{Err: ctx.Err()} // w belongs to the sender until it is answered
	}
}

// endlessCtx is a context that never ends. rueidis sends a command of a context that could end from
// a goroutine of the connection, which other commands can join.
var endlessCtx, _ = context.WithCancel(context.Background())

// sendBatch sends the waiting calls. No caller's context ends the calls of others. If a connection
// does not answer, the client closes it.
func (c *Client) sendBatch() {
	runtime.Gosched()
	c.nextBatch.mu.Lock()
	calls := c.nextBatch.calls
	c.nextBatch.calls, c.nextBatch.spare = c.nextBatch.spare, nil
	if len(calls) > maxBatch {
		c.nextBatch.calls = append(c.nextBatch.calls, calls[maxBatch:]...)
		calls = calls[:maxBatch]
		go c.sendBatch()
	}
	c.nextBatch.mu.Unlock()
	together := make([]redisclient.Call, len(calls))
	for i, w := range calls {
		together[i] = w.call
	}
	for i, r := range c.EvalMany(endlessCtx, together) {
		calls[i].got <- r
	}
	clear(calls)
	c.nextBatch.mu.Lock()
	c.nextBatch.spare = calls[:0]
	c.nextBatch.mu.Unlock()
}
