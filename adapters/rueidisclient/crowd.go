package rueidisclient

import (
	"context"
	"runtime"
	"sync"

	"github.com/retrysafe/retrysafe/redisclient"
)

// crowd collects the calls that are sent together next. The first call starts a goroutine that
// sends them. Before it sends, it lets all other ready goroutines run. So under load many calls
// share one write, and one read of the server, and a lone call waits for no other.
type crowd struct {
	mu    sync.Mutex
	calls []*waiting
	spare []*waiting // memory of a former crowd
}

// waiting is one call with its caller.
type waiting struct {
	call redisclient.Call
	got  chan redisclient.Reply
}

var callers = sync.Pool{New: func() any { return &waiting{got: make(chan redisclient.Reply, 1)} }}

// mostTogether is the largest number of calls that are sent together and wait for each other's
// replies.
const mostTogether = 256

// together sends a call with others of the same moment. It returns no later than ctx ends; the call
// may then still be in flight.
func (c *Client) together(ctx context.Context, call redisclient.Call) redisclient.Reply {
	w := callers.Get().(*waiting) //nolint:errcheck,forcetypeassert // the pool has nothing else
	w.call = call
	c.next.mu.Lock()
	c.next.calls = append(c.next.calls, w)
	first := len(c.next.calls) == 1
	c.next.mu.Unlock()
	if first {
		go c.send() // it serves all callers, and must not end with the context of one
	}
	select {
	case r := <-w.got:
		w.call = redisclient.Call{}
		callers.Put(w)
		return r
	case <-ctx.Done():
		return redisclient.Reply{Err: ctx.Err()} // w belongs to the sender until it is answered
	}
}

// unending is a context that never ends. rueidis sends a command of a context that could end from
// a goroutine of the connection, which other commands can join.
var unending, _ = context.WithCancel(context.Background())

// send sends the waiting calls. No caller's context ends the calls of others. If a connection does
// not answer, the client closes it.
func (c *Client) send() {
	runtime.Gosched()
	c.next.mu.Lock()
	calls := c.next.calls
	c.next.calls, c.next.spare = c.next.spare, nil
	if len(calls) > mostTogether {
		c.next.calls = append(c.next.calls, calls[mostTogether:]...)
		calls = calls[:mostTogether]
		go c.send()
	}
	c.next.mu.Unlock()
	together := make([]redisclient.Call, len(calls))
	for i, w := range calls {
		together[i] = w.call
	}
	for i, r := range c.EvalMany(unending, together) {
		calls[i].got <- r
	}
	clear(calls)
	c.next.mu.Lock()
	c.next.spare = calls[:0]
	c.next.mu.Unlock()
}
