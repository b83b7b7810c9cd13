package zklock_test

import (
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/lock"
)

// TestSoakCuts breaks connections at random requests, 30 times, and 1000 times with
// RETRYSAFE_SOAK=long. Meanwhile the processes of eight clients take a few locks. Each lock has one
// holder at a time, the fences grow, and when all sessions are back nothing is left in any queue.
func TestSoakCuts(t *testing.T) {
	t.Parallel()
	cuts := int64(30)
	if os.Getenv("RETRYSAFE_SOAK") == "long" {
		cuts = 1000 // some two minutes: the client waits a second after each
	}
	seed := mathrand.Uint64()
	t.Logf("seed %d", seed)
	names := []string{rand.Text(), rand.Text()}
	var inside [2]atomic.Int32
	var last [2]atomic.Uint64
	var done atomic.Int64
	var granted atomic.Int64
	var all sync.WaitGroup
	clients := make([]*client, 8)
	for i := range clients {
		c := connect(t, long)
		clients[i] = c
		random := mathrand.New(mathrand.NewPCG(seed, uint64(i)))
		c.proxy.setHook(func(op int32, _ int) fate { // called under the proxy's mutex
			if op == opPing || random.IntN(8) != 0 || done.Add(1) > cuts {
				return pass
			}
			return loseRequest + fate(random.IntN(2))
		})
		for range 2 {
			all.Go(func() {
				locks := lock.New(c, nil)
				for n := 0; done.Load() < cuts; n++ {
					at := n % len(names)
					held, err := locks.Lock(t.Context(), names[at])
					if errors.Is(err, lock.ErrLost) {
						t.Error("lost, though no session ends")
					}
					if err != nil {
						continue // the cut; its leftovers are checked below
					}
					granted.Add(1)
					if k := inside[at].Add(1); k != 1 {
						t.Errorf("%d holders at one time", k)
					}
					if was := retrysafe.Fence(last[at].Swap(uint64(held.Fence()))); was >= held.Fence() {
						t.Errorf("fence %d behind %d", held.Fence(), was)
					}
					inside[at].Add(-1)
					_ = held.Release(t.Context())
				}
			})
		}
	}
	all.Wait()
	look := rawClient(t)
	for _, name := range names {
		eventually(t, "the queue is empty, with all sessions there", func() bool { return len(queue(t, look, name)) == 0 })
	}
	for _, c := range clients { // the end of a session would have removed its nodes
		r := request(rand.Text())
		_, err := c.TryLock(testContext(t), r)
		assert.NoError(t, err, "TryLock")
	}
	t.Logf("%d grants, %d cuts", granted.Load(), min(done.Load(), cuts))
}
