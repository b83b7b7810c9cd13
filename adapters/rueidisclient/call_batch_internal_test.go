package rueidisclient

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/redisclient"
)

// TestAlone: a call marked Alone does not queue with calls that are sent together.
func TestAlone(t *testing.T) {
	t.Parallel()
	a, err := redisclient.ParseURL("redis://" + servertest.StartRedis(t).Addr)
	assert.NoError(t, err, "the address")
	c, err := Open(a)
	assert.NoError(t, err, "Open")
	t.Cleanup(func() { _ = c.Close() })
	script := redisclient.NewScript("echo", "return ARGV[1]")
	together := make(chan redisclient.Reply, 1)
	c.nextBatch.mu.Lock() // no call can join the queue
	go func() {
		together <- c.Eval(t.Context(), redisclient.Call{Script: script, Keys: []string{"k"}, Args: []string{"together"}})
	}()
	r := c.Eval(t.Context(), redisclient.Call{Script: script, Keys: []string{"k"}, Args: []string{"alone"}, Alone: true})
	assert.True(t, r.Err == nil && r.Value == "alone", "alone: %v", r)
	select {
	case r := <-together:
		t.Errorf("the other call did not go together with others: %v", r)
	case <-time.After(20 * time.Millisecond):
	}
	c.nextBatch.mu.Unlock()
	r = <-together
	assert.True(t, r.Err == nil && r.Value == "together", "together: %v", r)
}
