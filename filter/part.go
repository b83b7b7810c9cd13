package filter

import (
	"sync"

	"github.com/bits-and-blooms/bloom/v3"
)

// part has a share of all ids, and its own lock: the library is not safe for concurrent use, and
// testing and adding must be one step.
type part struct {
	mu sync.Mutex
	// turn is the number of the current window. Window n is at index n modulo the number of
	// windows.
	turn    int64
	windows []window

	added, surelyNew uint64
	_                [64]byte // so that no two parts share a cache line
}

type window struct {
	bits *bloom.BloomFilter
	ids  int // different ids, except those that were taken for others
}

func (p *part) make(o *Options, s shape, turn int64) {
	p.turn = turn
	p.windows = make([]window, o.Windows)
	for i := range p.windows {
		p.windows[i].bits = bloom.New(s.bits, s.k)
	}
}

func (p *part) at(turn int64) *window { return &p.windows[turn%int64(len(p.windows))] }

// rotate clears the windows that have begun since the last call. A turn in the past changes
// nothing: remembering longer does no harm.
func (p *part) rotate(turn int64) {
	from := max(p.turn, turn-int64(len(p.windows)))
	for n := from + 1; n <= turn; n++ {
		w := p.at(n)
		w.bits.ClearAll()
		w.ids = 0
	}
	p.turn = max(p.turn, turn)
}

// add always adds id to the current window. If an older window takes it for another id, it would
// otherwise be forgotten with that window.
func (p *part) add(id []byte) (seen bool) {
	current := p.at(p.turn)
	if seen = current.bits.TestOrAdd(id); !seen {
		current.ids++
	}
	return seen || p.older(id)
}

// older reports whether a window before the current one may have id.
func (p *part) older(id []byte) bool {
	for n := range len(p.windows) - 1 {
		if w := p.at(p.turn + 1 + int64(n)); w.ids > 0 && w.bits.Test(id) {
			return true
		}
	}
	return false
}

func (p *part) maybe(id []byte) bool {
	return p.at(p.turn).bits.Test(id) || p.older(id)
}
