package filter

import (
	"context"
	"sync/atomic"

	"github.com/dgryski/go-metro"
)

// Bloom is a Bloom filter in this process (Bloom 1970), in windows that rotate. It is safe for
// concurrent use.
//
// What other processes insert it does not know: where several of them insert into one table, its
// "surely new" is wrong for what the others have inserted, and only the unique index keeps a second
// row out. [RedisBloom] is the form that they share.
//
// An id takes −1.44·log2(p) bits, where p is [Options].FalsePositive by Windows; 9.6 bits for 1 %
// and one window. All of it is allocated when the filter is made. Hashes have no secret: whoever
// chooses ids can make them look alike, and costs look-ups by that, nothing else.
type Bloom struct {
	o     Options
	shape shape
	clock windowClock
	parts []part
	whole wholeness
	// warned is the turn of the last warning, plus one.
	warned atomic.Int64
	saved  atomic.Int64 // when that was written which was read
	each   int          // ids of a part above which it is overfull
}

// NewBloom makes a filter. The error says which option is wrong.
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

// partOf is chosen by another hash than the bits in it.
func partOf(id []byte, parts int) int {
	return int(metro.Hash64(id, 0x7e74) % uint64(parts)) //nolint:gosec // parts is positive and small
}

// lock gives the part of an id, locked and in the window of now.
func (b *Bloom) lock(id []byte) *part {
	p := &b.parts[partOf(id, len(b.parts))]
	turn := b.clock.turn()
	p.mu.Lock()
	if turn > p.turn {
		p.rotate(turn)
	}
	return p
}

// Add puts id in, and says whether it was surely new: never added by this process before, as far as
// the windows reach. Both are one step: of many that add one id at the same time, one is told so.
// Call it before the work. While the filter is not whole nothing is surely new.
func (b *Bloom) Add(id []byte) (surelyNew bool) {
	// before: what is added after a rebuild has ended was tested against all of it
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

// MaybeSeen tells whether id may have been added. false says that it was surely not; while the
// filter is not whole it is always true. To look first and to add then lets two be told that one id
// is new: use [Bloom.Add] for that.
func (b *Bloom) MaybeSeen(id []byte) bool {
	whole := b.whole.is()
	p := b.lock(id)
	defer p.mu.Unlock()
	return p.maybe(id) || !whole
}

// AddBatch is Add for many, in their order: of an id that stands twice among them only the first is
// surely new. The error is always nil; it is there for [Prefilter].
func (b *Bloom) AddBatch(_ context.Context, ids [][]byte) (surelyNew []bool, err error) {
	surelyNew = make([]bool, len(ids))
	for i, id := range ids {
		surelyNew[i] = b.Add(id)
	}
	return surelyNew, nil
}

// MaybeSeenBatch is MaybeSeen for many.
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

// wholeness says whether everything that was inserted is in the filter.
type wholeness struct{ v atomic.Bool }

func (w *wholeness) set(whole bool) { w.v.Store(whole) }
func (w *wholeness) is() bool       { return w.v.Load() }
