package filter

import (
	"sync"

	"github.com/bits-and-blooms/bloom/v3"
)

// part is a share of all ids, with a lock of its own: the library is not safe for concurrent use,
// and to test and to add must be one step.
type part struct {
	mu sync.Mutex
	// turn is the number of the current window. Window number n is at n modulo their count.
	turn    int64
	windows []window

	added, surelyNew uint64
	_                [64]byte // so that no two parts share a cache line
}

type window struct {
	bits *bloom.BloomFilter
	ids  int // different ones, but for those that were taken for others
}

func (p *part) make(o *Options, s shape, turn int64) {
	p.turn = turn
	p.windows = make([]window, o.Windows)
	for i := range p.windows {
		p.windows[i].bits = bloom.New(s.bits, s.k)
	}
}

func (p *part) at(turn int64) *window { return &p.windows[turn%int64(len(p.windows))] }

// rotate empties the windows that have begun since the last call. A turn that lies behind changes
// nothing: to remember for longer harms nobody.
func (p *part) rotate(turn int64) {
	from := max(p.turn, turn-int64(len(p.windows)))
	for n := from + 1; n <= turn; n++ {
		w := p.at(n)
		w.bits.ClearAll()
		w.ids = 0
	}
	p.turn = max(p.turn, turn)
}

// add puts id into the current window in any case: where an older one takes it for another id, it
// would else be forgotten with that.
func (p *part) add(id []byte) (seen bool) {
	current := p.at(p.turn)
	if seen = current.bits.TestOrAdd(id); !seen {
		current.ids++
	}
	return seen || p.older(id)
}

// older tells whether a window before the current one may have id.
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
