package rueidisclient

import (
	"context"
	"runtime"
	"sync"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe/redisclient"
)

// crowd is the calls that go out together next. The first one brings a goroutine to send them,
// which lets all others that are ready to run do so before it: under load many calls travel in one
// write and one read of the server, and a lone call waits for nobody.
type crowd struct {
	mu    sync.Mutex
	calls []*waiting
	spare []*waiting // memory of a crowd before
}

// waiting is one call and its caller.
type waiting struct {
	call redisclient.Call
	got  chan redisclient.Reply
}

var callers = sync.Pool{New: func() any { return &waiting{got: make(chan redisclient.Reply, 1)} }}

// mostTogether is how many calls wait for one another's replies at most.
const mostTogether = 256

// together sends a call with those of the same moment. It returns no later than ctx ends; the call
// may then still be on its way.
func (c *Client) together(ctx context.Context, call redisclient.Call) redisclient.Reply {
	w := callers.Get().(*waiting) //nolint:errcheck,forcetypeassert // the pool has nothing else
	w.call = call
	c.next.mu.Lock()
	c.next.calls = append(c.next.calls, w)
	first := len(c.next.calls) == 1
	c.next.mu.Unlock()
	if first {
		go c.send() //nolint:gosec // it is everybody's, and does not end with the context of one
	}
	select {
	case r := <-w.got:
		w.call = redisclient.Call{}
		callers.Put(w)
		return r
	case <-ctx.Done():
		return redisclient.Reply{Err: ctx.Err()} // w is the sender's until it has been answered
	}
}

// send sends the calls that wait. No caller's context ends the others' calls: a connection on which
// nothing comes back is given up by the client.
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
	cmds := make(rueidis.Commands, len(calls))
	for i, w := range calls {
		cmds[i] = c.build(w.call, false)
	}
	for i, r := range c.r.DoMulti(context.Background(), cmds...) {
		calls[i].got <- reply(r)
	}
	clear(calls)
	c.next.mu.Lock()
	c.next.spare = calls[:0]
	c.next.mu.Unlock()
}
