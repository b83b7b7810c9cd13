package idgen

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Buffered returns ids of a [Snowflake] from reserved blocks: taking an id is one atomic addition,
// and the clock is read once for each block. A block is as large as the recent demand in a
// millisecond, so the times of its ids are at most about that old. No id is skipped, so after a
// pause the first ids are as old as the pause. Ids of one caller are in order. It is safe for
// concurrent use.
type Buffered struct {
	generator *Snowflake
	current   atomic.Pointer[block]

	mu   sync.Mutex // guards what follows; one caller makes the next block
	size uint64
	made int64 // when the current block was made
}

// block is a range of numbers; each is a time and a sequence.
type block struct {
	first, size uint64
	taken       atomic.Uint64
}

// The limits of a block's size, and how long a block should last.
const (
	largestBlock = 1 << 14
	blockTime    = int64(time.Millisecond)
)

// NewBuffered returns a Buffered over g. Other callers may use g at the same time.
func NewBuffered(g *Snowflake) *Buffered { return &Buffered{generator: g, size: 1} }

// Next returns an id. It waits, and fails, as [Snowflake.Next] does.
func (b *Buffered) Next(ctx context.Context) (ID, error) {
	for {
		k := b.current.Load()
		if k != nil && k.taken.Load() < k.size { // limits taken to size plus callers
			if n := k.taken.Add(1) - 1; n < k.size {
				return b.generator.makeID(k.first + n), nil
			}
		}
		if err := b.refill(ctx, k); err != nil {
			return 0, err
		}
	}
}

// refill makes the block after old, unless another caller has made it.
func (b *Buffered) refill(ctx context.Context, old *block) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current.Load() != old {
		return nil
	}
	now := b.generator.clock()
	switch lasted := now - b.made; {
	case lasted < blockTime/2:
		b.size = min(b.size*2, largestBlock)
	case lasted > 2*blockTime:
		b.size = max(b.size*uint64(blockTime)/uint64(lasted), 1)
	}
	b.made = now
	first, got, err := b.generator.reserve(ctx, b.size)
	if err != nil {
		return err
	}
	b.current.Store(&block{first: first, size: got})
	return nil
}
