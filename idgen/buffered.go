package idgen

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Buffered hands out ids of a [Snowflake] that were reserved in blocks: taking one is one atomic
// addition, and the clock is read once for a block. A block is as large as what was asked for in a
// millisecond lately, so that ids are about as old; none is skipped, so that behind a lull the
// first ones are as old as the lull. Ids of one caller are in order. It is safe for concurrent use.
type Buffered struct {
	g       *Snowflake
	current atomic.Pointer[block]

	mu   sync.Mutex // guards what follows: the next block is made by one
	size uint64
	made int64 // when the current block was made
}

// block is a row of numbers of time and sequence.
type block struct {
	first, size uint64
	taken       atomic.Uint64
}

// The sizes of blocks, and how long one should last.
const (
	largest = 1 << 14
	shortly = int64(time.Millisecond)
)

// NewBuffered returns one over g. Others may use g beside it.
func NewBuffered(g *Snowflake) *Buffered { return &Buffered{g: g, size: 1} }

// Next takes an id. It waits, and fails, as [Snowflake.Next] does.
func (b *Buffered) Next(ctx context.Context) (ID, error) {
	for {
		k := b.current.Load()
		if k != nil && k.taken.Load() < k.size { // counts no further than that many callers
			if n := k.taken.Add(1) - 1; n < k.size {
				return b.g.id(k.first + n), nil
			}
		}
		if err := b.refill(ctx, k); err != nil {
			return 0, err
		}
	}
}

// refill makes the block behind old, unless somebody has.
func (b *Buffered) refill(ctx context.Context, old *block) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current.Load() != old {
		return nil
	}
	now := b.g.clock()
	switch lasted := now - b.made; {
	case lasted < shortly/2:
		b.size = min(b.size*2, largest)
	case lasted > 2*shortly:
		b.size = max(b.size*uint64(shortly)/uint64(lasted), 1)
	}
	b.made = now
	first, got, err := b.g.reserve(ctx, b.size)
	if err != nil {
		return err
	}
	b.current.Store(&block{first: first, size: got})
	return nil
}
