package filter

import (
	"sync"
	"sync/atomic"
)

// part has a share of all ids. Its lock makes testing and adding one step. Readers take it only to
// begin a new window.
type part struct {
	mu sync.Mutex
	// currentWindow is the number of the current window. Window n is at index n modulo the number
	// of windows. It changes under mu.
	currentWindow atomic.Int64
	windows       []window

	added, surelyNew uint64   // under mu
	_                [64]byte // so that no two parts share a cache line
}

type window struct {
	blocks []block
	ids    atomic.Int64 // different ids, except those that were taken for others
}

func (p *part) allocate(windows int, s blockShape, turn int64) {
	p.currentWindow.Store(turn)
	p.windows = make([]window, windows)
	for i := range p.windows {
		p.windows[i].blocks = make([]block, s.blocks)
	}
}

func (p *part) windowAt(turn int64) *window { return &p.windows[turn%int64(len(p.windows))] }

// rotate clears the windows that have begun since the last call; mu is held. A turn in the past
// changes nothing: remembering longer does no harm. A reader at the same time may miss ids of the
// windows that are cleared: their time has passed.
func (p *part) rotate(turn int64) {
	now := p.currentWindow.Load()
	if turn <= now {
		return
	}
	for n := max(now, turn-int64(len(p.windows))) + 1; n <= turn; n++ {
		w := p.windowAt(n)
		for i := range w.blocks {
			w.blocks[i].clear()
		}
		w.ids.Store(0)
	}
	p.currentWindow.Store(turn)
}

// add always adds an id to the current window; mu is held. If an older window takes the id for
// another one, it would otherwise be forgotten with that window.
func (p *part) add(at place, m *mask) (seen bool) {
	turn := p.currentWindow.Load()
	current := p.windowAt(turn)
	if seen = current.blocks[at.block].add(m); !seen {
		current.ids.Add(1)
	}
	return seen || p.inOlderWindow(turn, at, m)
}

// inOlderWindow reports whether a window before that of turn may have an id.
func (p *part) inOlderWindow(turn int64, at place, m *mask) bool {
	for n := range len(p.windows) - 1 {
		if w := p.windowAt(turn + 1 + int64(n)); w.ids.Load() > 0 && w.blocks[at.block].hasBits(m) {
			return true
		}
	}
	return false
}

// mayContain reports whether a window may have an id. It needs no lock. It looks at the current
// window last, since an id that is added again is in that one before an older one is cleared, and
// looks again if a window has begun meanwhile.
func (p *part) mayContain(at place, m *mask) bool {
	for turn := p.currentWindow.Load(); ; {
		if p.inOlderWindow(turn, at, m) || p.windowAt(turn).blocks[at.block].hasBits(m) {
			return true
		}
		now := p.currentWindow.Load()
		if now == turn {
			return false
		}
		turn = now
	}
}
