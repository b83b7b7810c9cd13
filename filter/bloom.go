package filter

import (
	"context"
	"sync/atomic"
)

// Bloom is a Bloom filter (Bloom 1970) in this process, with windows that rotate. It is blocked:
// all bits of an id are in one cache line (Putze, Sanders and Singler 2007). It is safe for
// concurrent use.
//
// Bloom does not know what other processes insert. If several processes insert into one table,
// "surely new" is wrong for the ids of the others, and only the unique index prevents a second row.
// Use [RedisBloom] to share a filter.
//
// An id takes 9.9 bits for a FalsePositive of 1 % and one window, 15.5 bits for 0.1 %, and 39 bits
// for one in a million: below that, RedisBloom is the smaller one. Several windows share the
// FalsePositive. All memory is allocated when the filter is created. The hashes have no
// secret. A client that chooses its ids can make them collide, which costs lookups and nothing
// else.
type Bloom struct {
	o     Options
	shape blockShape
	clock windowClock
	parts []part
	whole wholeFlag
	// warned is the number of the window of the last warning, plus one.
	warned      atomic.Int64
	saved       atomic.Int64 // when the filter that was read was written
	mostPerPart int64        // number of ids above which a part is overfull
}

// NewBloom returns a new filter. The error says which option is invalid.
func NewBloom(options *Options) (*Bloom, error) {
	o, err := copyOptions(options).withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Bloom{o: o, shape: o.newBlockShape(), clock: newWindowClock(o.Window)}
	if err := o.checkSize(b.shape.bytes()); err != nil {
		return nil, err
	}
	b.whole.set(o.Empty)
	b.parts = make([]part, b.shape.parts)
	for i := range b.parts {
		b.parts[i].allocate(o.Windows, b.shape, b.clock.currentWindow())
	}
	share := int64(o.Items / len(b.parts))
	b.mostPerPart = share + share/10 + 100
	return b, nil
}

// currentPart returns the part of an id, rotated to the current window.
func (b *Bloom) currentPart(at place) *part {
	p := &b.parts[at.part]
	if turn := b.clock.currentWindow(); turn > p.currentWindow.Load() {
		p.mu.Lock()
		p.rotate(turn)
		p.mu.Unlock()
	}
	return p
}

// Add adds id and reports whether it was surely new: this process has not added it before, within
// the time of the windows. Both are one step: of concurrent calls with the same id, only one gets
// true. Call Add before the work. While the filter is not whole, no id is surely new.
func (b *Bloom) Add(id []byte) (surelyNew bool) {
	// Read before adding: an id that is added after the end of a rebuild is tested against all ids.
	whole := b.whole.get()
	at := b.shape.placeOf(id)
	m := b.shape.maskOf(at.bits)
	return b.addAt(at, &m, whole)
}

func (b *Bloom) addAt(at place, m *mask, whole bool) (surelyNew bool) {
	p := b.currentPart(at)
	p.mu.Lock()
	surelyNew = !p.add(at, m) && whole
	p.added++
	if surelyNew {
		p.surelyNew++
	}
	turn := p.currentWindow.Load()
	over := p.windowAt(turn).ids.Load() > b.mostPerPart
	p.mu.Unlock()
	if over {
		b.warnOverfull(turn)
	}
	return surelyNew
}

// MaybeSeen reports whether id may have been added. If it returns false, id was surely not added.
// While the filter is not whole, it always returns true. If two callers first call MaybeSeen and
// then Add, both may see the same id as new; call only [Bloom.Add] to avoid that.
func (b *Bloom) MaybeSeen(id []byte) bool {
	whole := b.whole.get()
	at := b.shape.placeOf(id)
	m := b.shape.maskOf(at.bits)
	return b.currentPart(at).mayContain(at, &m) || !whole
}

// AddBatch is Add for many ids, in order: if an id occurs twice, only the first one is surely new.
// The error is always nil; it is there for [Prefilter].
func (b *Bloom) AddBatch(_ context.Context, ids [][]byte) (surelyNew []bool, err error) {
	surelyNew = make([]bool, len(ids))
	b.eachPrefetched(ids, func(i int, at place, m *mask) {
		surelyNew[i] = b.addAt(at, m, b.whole.get())
	})
	return surelyNew, nil
}

// MaybeSeenBatch is MaybeSeen for many ids.
func (b *Bloom) MaybeSeenBatch(ids [][]byte) []bool {
	maybe := make([]bool, len(ids))
	b.eachPrefetched(ids, func(i int, at place, m *mask) {
		whole := b.whole.get()
		maybe[i] = b.currentPart(at).mayContain(at, m) || !whole
	})
	return maybe
}

// eachPrefetched calls f for each id, sixteen at a time. It first reads from the blocks of all
// sixteen, so that the processor waits for the memory of all of them at once.
func (b *Bloom) eachPrefetched(ids [][]byte, f func(i int, at place, m *mask)) {
	var places [16]place
	for from := 0; from < len(ids); from += len(places) {
		some := ids[from:min(from+len(places), len(ids))]
		for i, id := range some {
			at := b.shape.placeOf(id)
			places[i] = at
			p := &b.parts[at.part]
			_ = atomic.LoadUint64(&p.windowAt(p.currentWindow.Load()).blocks[at.block][0])
		}
		for i := range some {
			m := b.shape.maskOf(places[i].bits)
			f(from+i, places[i], &m)
		}
	}
}

func (b *Bloom) warnOverfull(turn int64) {
	if last := b.warned.Load(); last <= turn && b.warned.CompareAndSwap(last, turn+1) {
		b.o.Logger.Warn("filter: more ids than Items; it says maybe more often. Make a larger one", "items", b.o.Items)
	}
}

// wholeFlag says whether all inserted ids are in the filter.
type wholeFlag struct{ v atomic.Bool }

func (w *wholeFlag) set(whole bool) { w.v.Store(whole) }
func (w *wholeFlag) get() bool      { return w.v.Load() }
