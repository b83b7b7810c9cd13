package rueidisclient

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/redisclient"
)

// laneTo returns a client whose connections have no time-out that a test could wait for, and which
// has used its lane, and what makes a call that echoes.
func laneTo(t *testing.T) (c *Client, echo func(ctx context.Context, text string) redisclient.Reply) {
	t.Helper()
	a, err := redisclient.ParseURL("redis://" + servertest.StartRedis(t).Addr)
	assert.NoError(t, err, "the address")
	o, gather, err := clientOptions(a)
	assert.NoError(t, err, "the options")
	o.ConnWriteTimeout = time.Hour
	r, err := rueidis.NewClient(o)
	assert.NoError(t, err, "NewClient")
	c = &Client{client: r, openOptions: &o, singleServer: gather}
	t.Cleanup(func() { _ = c.Close() })
	script := redisclient.NewScript("echo", "return ARGV[1]")
	echo = func(ctx context.Context, text string) redisclient.Reply {
		return c.Eval(ctx, redisclient.Call{Script: script, Keys: []string{"k"}, Args: []string{text}})
	}
	for c.lane.conn == nil { // a call uses the lane if the one before it is less than a second ago
		assert.NoError(t, echo(t.Context(), "first").Err, "a call")
	}
	return c, echo
}

func (c *Client) must(t *testing.T, words ...string) {
	t.Helper()
	assert.NoError(t, c.client.Do(context.Background(), c.onSharedConn(c.client.B().Arbitrary(words...).Build())).Error(), "a command")
}

// hanging makes a call to a server that does not answer scripts, and returns when it is in flight.
func hanging(ctx context.Context, t *testing.T, c *Client, echo func(context.Context, string) redisclient.Reply) <-chan redisclient.Reply {
	t.Helper()
	c.must(t, "CLIENT", "PAUSE", "3600000", "WRITE") // stops scripts only
	got := make(chan redisclient.Reply, 1)
	c.lane.mu.Lock()
	c.lane.began = time.Now()
	c.lane.conn.used = c.lane.began
	c.lane.mu.Unlock()
	go func() { got <- echo(ctx, "hangs") }()
	for c.lane.inFlight.Load() == 0 && len(got) == 0 { // it may have ended with ctx already
		runtime.Gosched()
	}
	return got
}

// TestLaneContext: a call that is alone ends with its context, although the server does not answer.
// The next call gets its own answer.
func TestLaneContext(t *testing.T) {
	t.Parallel()
	c, echo := laneTo(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := hanging(ctx, t, c, echo)
	cancel()
	assert.ErrorIs(t, (<-got).Err, context.Canceled, "a call whose context has ended")
	c.must(t, "CLIENT", "UNPAUSE")
	for range 3 {
		r := echo(t.Context(), "next")
		assert.True(t, r.Err == nil && r.Value == "next", "the next call: %v", r)
	}
}

// TestLaneDeadline: the same with a deadline.
func TestLaneDeadline(t *testing.T) {
	t.Parallel()
	c, echo := laneTo(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, (<-hanging(ctx, t, c, echo)).Err, context.DeadlineExceeded, "a call after its deadline")
}

// TestLaneClose: Close ends a call that waits, and later calls fail.
func TestLaneClose(t *testing.T) {
	t.Parallel()
	c, echo := laneTo(t)
	got := hanging(t.Context(), t, c, echo)
	_ = c.Close()
	assert.ErrorIs(t, (<-got).Err, rueidis.ErrClosing, "a call that waits")
	assert.ErrorIs(t, echo(t.Context(), "later").Err, rueidis.ErrClosing, "a later call")
}

// TestLaneIdle: no call fails because the server has closed the lane's connection while it was
// idle.
func TestLaneIdle(t *testing.T) {
	t.Parallel()
	c, echo := laneTo(t)
	first := c.lane.conn
	c.must(t, "CLIENT", "KILL", "ADDR", first.LocalAddr().String())
	first.used = first.used.Add(-idleAfter)
	c.lane.began = time.Now() // a call on the other connection
	r := echo(t.Context(), "after")
	assert.True(t, r.Err == nil && r.Value == "after", "a call after an idle time: %v", r)
	for c.lane.conn == first {
		assert.NoError(t, echo(t.Context(), "again").Err, "a call on a new connection")
	}
}
