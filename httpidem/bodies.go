package httpidem

import (
	"math"
	"runtime/debug"
	"sync"
	"time"
)

// Bodies limits the memory that several middlewares together use for the bodies of guarded
// requests; see [Options]. Memory is reserved as bytes arrive. If there is no room, the slowest
// arriving body is evicted if it is slow. Otherwise a request waits for a moment and then gets 503
// no-room. Bodies of up to 4 KiB need no room. It is safe for concurrent use.
type Bodies struct {
	most int64

	mu       sync.Mutex
	used     int64
	arriving map[*arrival]struct{}
	freed    chan struct{} // closed and replaced when there may be room
}

const (
	freeBody   = 4 << 10         // needs no room
	leastRate  = 16 << 10        // bytes a second; a slower body may be evicted
	rateWindow = time.Second     // over which the rate is measured
	roomWait   = 3 * time.Second // the longest wait for room
	roomLook   = 100 * time.Millisecond
	usualRoom  = 64 << 20
)

// NewBodies returns a Bodies of most bytes. If most is zero or less: 64 MiB, or a quarter of
// GOMEMLIMIT if that is less.
func NewBodies(most int64) *Bodies {
	if most <= 0 {
		most = usualRoom
		if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
			most = min(most, limit/4)
		}
	}
	return &Bodies{most: most, arriving: map[*arrival]struct{}{}, freed: make(chan struct{})}
}

// Size returns the room in bytes.
func (b *Bodies) Size() int64 { return b.most }

// Used returns how many bytes are in use at present.
func (b *Bodies) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// arrival is a body that takes room; a nil arrival takes none. The lock of Bodies guards its
// fields.
type arrival struct {
	room   *Bodies
	taken  int64
	stop   func() // ends its reading
	gone   bool   // evicted
	waits  bool   // for room, and is not being read
	window time.Time
	got    int64   // since window
	rate   float64 // in the window before
}

// arrive begins to count a body. stop must end a blocked read of it.
func (b *Bodies) arrive(stop func()) *arrival {
	if b == nil {
		return nil
	}
	return &arrival{room: b, stop: stop, window: time.Now(), rate: math.Inf(1)}
}

// came counts n bytes that have arrived. It returns false if the body has been evicted.
func (a *arrival) came(n int) bool {
	if a == nil {
		return true
	}
	a.room.mu.Lock()
	defer a.room.mu.Unlock()
	a.got += int64(n)
	a.roll(time.Now())
	return !a.gone
}

// roll begins another window if this one is over.
func (a *arrival) roll(now time.Time) {
	if since := now.Sub(a.window); since >= rateWindow {
		a.rate, a.window, a.got = float64(a.got)/since.Seconds(), now, 0
	}
}

// grow takes room up to size. It returns false if there is none.
func (a *arrival) grow(size int64) bool {
	if a == nil || size <= freeBody || size <= a.taken {
		return true
	}
	end := time.Now().Add(roomWait)
	defer a.reads()
	for {
		ok, freed := a.room.take(a, size)
		if ok || freed == nil || time.Now().After(end) {
			return ok
		}
		t := time.NewTimer(roomLook)
		select {
		case <-freed:
		case <-t.C: // another body may be slow by now
		}
		t.Stop()
	}
}

// reads restarts the measurement after a wait for room.
func (a *arrival) reads() {
	a.room.mu.Lock()
	defer a.room.mu.Unlock()
	if a.waits {
		a.waits, a.window, a.got, a.rate = false, time.Now(), 0, math.Inf(1)
	}
}

// take takes room for size bytes in all. If there is no room, it returns what to wait for, or nil
// if waiting does not help.
func (b *Bodies) take(a *arrival, size int64) (ok bool, freed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case a.gone || size > b.most:
		return false, nil
	case b.used+size-a.taken > b.most:
		a.waits = true
		b.evict(a)
		return false, b.freed
	}
	b.used += size - a.taken
	a.taken = size
	b.arriving[a] = struct{}{}
	return true, nil
}

// evict evicts the slowest body, if it is slow.
func (b *Bodies) evict(asks *arrival) {
	var slowest *arrival
	least := float64(leastRate)
	now := time.Now()
	for a := range b.arriving {
		a.roll(now)
		if a != asks && !a.gone && !a.waits && a.rate < least {
			slowest, least = a, a.rate
		}
	}
	if slowest != nil {
		slowest.gone = true
		slowest.stop()
	}
}

// arrived marks the body as whole: it is not evicted any more. Its room stays taken.
func (a *arrival) arrived() {
	if a == nil {
		return
	}
	a.room.mu.Lock()
	defer a.room.mu.Unlock()
	delete(a.room.arriving, a)
}

// leave gives the room back.
func (a *arrival) leave() {
	if a == nil {
		return
	}
	b := a.room
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.arriving, a)
	if a.taken == 0 {
		return
	}
	b.used -= a.taken
	a.taken = 0
	close(b.freed)
	b.freed = make(chan struct{})
}
