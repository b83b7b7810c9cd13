package filter

import (
	"context"
	"sync/atomic"

	"github.com/dgryski/go-metro"
)

// Bloom is a Bloom filter (Bloom 1970) in this process, with windows that rotate. It is safe for
// concurrent use.
//
// Bloom does not know what other processes insert. If several processes insert into one table,
// "surely new" is wrong for the ids of the others, and only the unique index prevents a second row.
// Use [RedisBloom] to share a filter.
//
// An id takes −1.44·log2(p) bits, where p is [Options].FalsePositive divided by Windows: 9.6 bits
// for 1 % and one window. All memory is allocated when the filter is created. The hashes have no
// secret. A client that chooses its ids can make them collide, which costs lookups and nothing
// else.
type Bloom struct {
	o     Options
	shape shape
	clock windowClock
	parts []part
	whole wholeness
	// warned is the number of the window of the last warning, plus one.
	warned atomic.Int64
	saved  atomic.Int64 // when the filter that was read was written
	each   int          // number of ids above which a part is overfull
}

// NewBloom returns a new filter. The error says which option is invalid.
func NewBloom(o Options) (*Bloom, error) {
	o, err := o.checked()
	if err != nil {
		return nil, err
	}
	b := &Bloom{o: o, shape: o.shape(64, 1<<17), clock: newWindowClock(o.Window)}
	b.whole.set(o.Empty)
	b.parts = make([]part, b.shape.parts)
	for i := range b.parts {
		b.parts[i].make(&o, b.shape, b.clock.turn())
	}
	b.each = o.Items/len(b.parts) + o.Items/len(b.parts)/10 + 100
	return b, nil
}

// partOf uses another hash than the bits within the part.
func partOf(id []byte, parts int) int {
	return int(metro.Hash64(id, 0x7e74) % uint64(parts)) //nolint:gosec // parts is positive and small
}

// lock returns the part of an id, locked and rotated to the current window.
func (b *Bloom) lock(id []byte) *part {
	p := &b.parts[partOf(id, len(b.parts))]
	turn := b.clock.turn()
	p.mu.Lock()
	if turn > p.turn {
		p.rotate(turn)
	}
	return p
}

// Add adds id and reports whether it was surely new: this process has not added it before, within
// the time of the windows. Both are one step: of concurrent calls with the same id, only one gets
// true. Call Add before the work. While the filter is not whole, no id is surely new.
func (b *Bloom) Add(id []byte) (surelyNew bool) {
	// Read before adding: an id that is added after the end of a rebuild is tested against all ids.
	whole := b.whole.is()
	p := b.lock(id)
	surelyNew = !p.add(id) && whole
	p.added++
	if surelyNew {
		p.surelyNew++
	}
	over, turn := p.at(p.turn).ids > b.each, p.turn
	p.mu.Unlock()
	if over {
		b.warn(turn)
	}
	return surelyNew
}

// MaybeSeen reports whether id may have been added. If it returns false, id was surely not added.
// While the filter is not whole, it always returns true. If two callers first call MaybeSeen and
// then Add, both may see the same id as new; call only [Bloom.Add] to avoid that.
func (b *Bloom) MaybeSeen(id []byte) bool {
	whole := b.whole.is()
	p := b.lock(id)
	defer p.mu.Unlock()
	return p.maybe(id) || !whole
}

// AddBatch is Add for many ids, in order: if an id occurs twice, only the first one is surely new.
// The error is always nil; it is there for [Prefilter].
func (b *Bloom) AddBatch(_ context.Context, ids [][]byte) (surelyNew []bool, err error) {
	surelyNew = make([]bool, len(ids))
	for i, id := range ids {
		surelyNew[i] = b.Add(id)
	}
	return surelyNew, nil
}

// MaybeSeenBatch is MaybeSeen for many ids.
func (b *Bloom) MaybeSeenBatch(ids [][]byte) []bool {
	maybe := make([]bool, len(ids))
	for i, id := range ids {
		maybe[i] = b.MaybeSeen(id)
	}
	return maybe
}

func (b *Bloom) warn(turn int64) {
	if last := b.warned.Load(); last <= turn && b.warned.CompareAndSwap(last, turn+1) {
		b.o.Logger.Warn("filter: more ids than Items; it says maybe more often. Make a larger one", "items", b.o.Items)
	}
}

// wholeness says whether all inserted ids are in the filter.
type wholeness struct{ v atomic.Bool }

func (w *wholeness) set(whole bool) { w.v.Store(whole) }
func (w *wholeness) is() bool       { return w.v.Load() }
