package outbox //nolint:testpackage // a relay's table is not exported

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestHeldUpQueueIsReadOnce: messages that wait for a dead one are not read again for each batch of
// other messages.
func TestHeldUpQueueIsReadOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := new(fakeTable)
		const queue, others = 20_000, 5_000
		for i := range 1 + queue {
			f.add(fmt.Sprint("held ", i), "held")
		}
		f.rows[0].dead = true
		for i := range others {
			f.add(fmt.Sprint("other ", i), fmt.Sprint(i))
		}
		published := 0
		_, stop := start(t, f, OneByOne(func(context.Context, Outgoing) error { published++; return nil }), nil)
		for range 1000 {
			if time.Sleep(10 * time.Millisecond); published == others {
				break
			}
		}
		synctest.Wait()
		assert.Equal(t, published, others, "others that were published")
		assert.True(t, f.read < 4*(queue+others), "rows that were read: %d", f.read)
		assert.NoError(t, stop(), "Run")
	})
}

// TestOrderWhileKeysAreHeldUp: the messages of a key are published in order, whatever fails, dies,
// is redriven or discarded at any time.
func TestOrderWhileKeysAreHeldUp(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			draw := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return r.IntN(n)
			}
			chance := func(n int) bool { return draw(n) == 0 }
			f, at, last := &fakeTable{oneWriter: seed%2 == 1}, map[string]int{}, map[string]int64{}
			_, stop := start(t, f, OneByOne(func(_ context.Context, m Outgoing) error {
				switch {
				case chance(20):
					return Permanent(errors.New("never"))
				case chance(20):
					return errors.New("not now")
				}
				time.Sleep(time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				if m.seq <= last[m.Key] {
					t.Errorf("seed %d: message %d of key %s after %d", seed, m.seq, m.Key, last[m.Key])
				}
				last[m.Key] = m.seq
				at[m.Key]++
				return nil
			}), &RelayOptions{Batch: 7, MinWait: 20 * time.Millisecond, MaxAttempts: 3})
			for range 300 {
				f.add(fmt.Sprint(draw(1<<62)), fmt.Sprint(draw(9)))
				if chance(20) {
					time.Sleep(time.Duration(draw(300)) * time.Millisecond)
				}
			}
			for range 100 {
				time.Sleep(time.Duration(draw(8)) * time.Millisecond)
				f.settleDead(chance(2))
			}
			for range 200 {
				time.Sleep(time.Second)
				f.settleDead(true)
			}
			synctest.Wait()
			assert.Equal(t, len(f.rows), 0, "seed %d: messages that are left", seed)
			assert.NoError(t, stop(), "Run")
		})
	}
}

// settleDead redrives dead messages, or discards them.
func (f *fakeTable) settleDead(redrive bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := f.rows[:0:0]
	for _, r := range f.rows {
		if r.dead && !redrive {
			continue
		}
		if r.dead {
			r.dead, r.due, r.attempts = false, time.Time{}, 0
		}
		left = append(left, r)
	}
	f.rows = left
}
