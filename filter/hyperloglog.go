package filter

import (
	"context"
	"encoding/binary"
	"iter"
	"math/bits"
	"sync"

	"github.com/axiomhq/hyperloglog"
	"github.com/dgryski/go-metro"
)

// HyperLogLog has the registers of a HyperLogLog sketch (Flajolet and others 2007), and uses them
// in another way: if adding an id changes a register, the id was surely never added. It takes one
// byte for each register and window, whatever the number of ids. The more ids there are, the fewer
// of the new ones it recognises: after n ids in m registers, the next one changes a register with a
// probability of about 0.72·m/n. With 16 384 registers that is 68 % after 10 000 ids, 12 % after
// 100 000, 1 % after a million, and 0.01 % after 100 million; docs/benchmarks.md has the curve.
// Beyond that only a [Bloom] filter saves lookups. HyperLogLog still estimates how many ids there
// are.
//
// It is in this process and does not know what other processes insert; see [Bloom]. Use
// [RedisHyperLogLog] to share one. It is safe for concurrent use.
type HyperLogLog struct {
	o     Options
	clock windowClock
	whole wholeFlag

	mu            sync.Mutex
	currentWindow int64
	windows       [][]byte // registers, in the library's layout

	added, surelyNew uint64
}

// NewHyperLogLog returns one with 2^Precision registers. It ignores Items and FalsePositive.
func NewHyperLogLog(options *Options) (*HyperLogLog, error) {
	o := copyOptions(options)
	o.Items, o.FalsePositive = 1, 0
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &HyperLogLog{o: o, clock: newWindowClock(o.Window), windows: make([][]byte, o.Windows)}
	for i := range h.windows {
		h.windows[i] = make([]byte, 1<<o.Precision)
	}
	h.currentWindow = h.clock.currentWindow()
	h.whole.set(o.Empty)
	return h, nil
}

// registerOf returns the register of an id and its height. It is computed as in the library, which
// does not report whether an insert changed a register.
func (h *HyperLogLog) registerOf(id []byte) (place uint64, height byte) {
	x := metro.Hash64(id, 1337)
	p := h.o.Precision
	rest := x<<p | 1<<(p-1)
	return x >> (64 - p), byte(bits.LeadingZeros64(rest) + 1) //nolint:gosec // at most 61
}

// rotate clears the windows that have begun since the last call and returns the current one. The
// caller holds the lock.
func (h *HyperLogLog) rotate() (current []byte) {
	turn, n := h.clock.currentWindow(), int64(len(h.windows))
	for t := max(h.currentWindow, turn-n) + 1; t <= turn; t++ {
		clear(h.windows[t%n])
	}
	h.currentWindow = max(h.currentWindow, turn)
	return h.windows[h.currentWindow%n]
}

// maxHeight returns the height of a register over all windows.
func (h *HyperLogLog) maxHeight(place uint64) (height byte) {
	for _, w := range h.windows {
		height = max(height, w[place])
	}
	return height
}

// Add adds id and reports whether it was surely new; see [Bloom.Add]. Call it before the work.
func (h *HyperLogLog) Add(id []byte) (surelyNew bool) {
	whole := h.whole.get()
	place, height := h.registerOf(id)
	h.mu.Lock()
	defer h.mu.Unlock()
	current := h.rotate()
	surelyNew = whole && height > h.maxHeight(place)
	current[place] = max(current[place], height)
	h.added++
	if surelyNew {
		h.surelyNew++
	}
	return surelyNew
}

// MaybeSeen reports whether id may have been added; see [Bloom.MaybeSeen].
func (h *HyperLogLog) MaybeSeen(id []byte) bool {
	whole := h.whole.get()
	place, height := h.registerOf(id)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rotate()
	return !whole || height <= h.maxHeight(place)
}

// AddBatch is Add for many ids, in order. The error is always nil; it is there for [Prefilter].
func (h *HyperLogLog) AddBatch(_ context.Context, ids [][]byte) (surelyNew []bool, err error) {
	surelyNew = make([]bool, len(ids))
	for i, id := range ids {
		surelyNew[i] = h.Add(id)
	}
	return surelyNew, nil
}

// Rebuild is like [Bloom.Rebuild].
func (h *HyperLogLog) Rebuild(ctx context.Context, ids iter.Seq2[[]byte, error], progress func(n int)) (n int, err error) {
	h.whole.set(false)
	n, err = eachID(ctx, ids, progress, func(id []byte) error {
		place, height := h.registerOf(id)
		h.mu.Lock()
		current := h.rotate()
		current[place] = max(current[place], height)
		h.mu.Unlock()
		return nil
	})
	if err == nil {
		h.whole.set(true)
	}
	return n, err
}

// MarkWhole is like [Bloom.MarkWhole].
func (h *HyperLogLog) MarkWhole() { h.whole.set(true) }

// Estimate returns the number of different ids in all windows together, within about 0.8 % at the
// default precision.
func (h *HyperLogLog) Estimate() uint64 {
	h.mu.Lock()
	h.rotate()
	data := []byte{2, byte(h.o.Precision), 0, 0} //nolint:gosec // 4 to 18; the library's form of dense registers
	data = binary.BigEndian.AppendUint32(data, 1<<h.o.Precision)
	for place := range h.windows[0] {
		data = append(data, h.maxHeight(uint64(place)))
	}
	h.mu.Unlock()
	var s hyperloglog.Sketch
	if err := s.UnmarshalBinary(data); err != nil {
		panic("filter: the registers are not as the library has them: " + err.Error())
	}
	return s.Estimate()
}

// Stats returns the counters. Items is [HyperLogLog.Estimate]; Fill and FalsePositive are estimated
// from it. FalsePositive is the share of new ids that get "maybe seen".
func (h *HyperLogLog) Stats() Stats {
	s := Stats{Whole: h.whole.get(), Items: int(h.Estimate())} //nolint:gosec // a count
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.o.Window > 0 {
		s.Rotations = h.currentWindow - h.clock.wall/int64(h.o.Window)
	}
	s.Added, s.SurelyNew, s.Maybe = h.added, h.surelyNew, h.added-h.surelyNew
	s.Bytes = int64(len(h.windows)) << h.o.Precision
	zero, recognised := 0, 0.0
	for place := range h.windows[0] {
		height := h.maxHeight(uint64(place))
		if height == 0 {
			zero++
		}
		recognised += 1 / float64(uint64(1)<<height)
	}
	s.Fill = 1 - float64(zero)/float64(len(h.windows[0]))
	s.FalsePositive = 1 - recognised/float64(len(h.windows[0]))
	return s
}
