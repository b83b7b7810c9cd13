package httpidem

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// buffer is memory that is reused for later requests, unless body gives it to a handler. No other
// code may keep its bytes after free.
type buffer struct {
	b     []byte
	room  *arrival // of a request body
	given bool     // to a handler
}

var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, 4<<10)} }}

// keepSize is the largest capacity of a buffer that is kept for reuse.
const keepSize = 256 << 10

func newBuffer() *buffer {
	return buffers.Get().(*buffer) //nolint:errcheck // the pool has nothing else
}

func (b *buffer) free() {
	if b.room != nil {
		b.room.leave()
		b.room = nil
	}
	if b.given {
		b.b = nil
		return
	}
	if cap(b.b) > keepSize {
		return
	}
	b.b = b.b[:0]
	buffers.Put(b)
}

// readBodyInTime is readBody with the time limit, and with room from LimitOptions.Bodies, of which
// one is set. It clears the read deadline afterwards; otherwise that would end the request later.
func (m *Middleware) readBodyInTime(w http.ResponseWriter, r *http.Request) (*buffer, *Problem) {
	limit, size := m.o.Limit.BodyTime, m.o.Limit.Body
	if _, inMemory := r.Body.(interface{ Len() int }); inMemory || r.Body == nil || r.Body == http.NoBody {
		return readBody(r, size, nil)
	}
	rc := http.NewResponseController(w)
	var room *arrival
	if m.o.Limit.Bodies != nil {
		room = m.o.Limit.Bodies.arrive(func() { _ = rc.SetReadDeadline(time.Unix(1, 0)) })
	}
	if limit > 0 {
		// a ResponseWriter without read deadlines has no connection that could be slow
		_ = rc.SetReadDeadline(time.Now().Add(limit))
	}
	body, p := readBody(r, size, room)
	if room != nil {
		room.arrived()
	}
	if p == nil {
		_ = rc.SetReadDeadline(time.Time{})
	}
	return body, p
}

// readBody reads the whole body. It must be known before anything is decided: it is part of the
// fingerprint, and a request whose body breaks off must not run.
func readBody(r *http.Request, limit int64, room *arrival) (*buffer, *Problem) {
	if r.ContentLength > limit {
		return nil, problemFor(retrysafe.CodeBodyTooLarge, nil)
	}
	if r.PostForm != nil || r.MultipartForm != nil {
		// A body that has been read cannot be compared with another request's.
		return nil, problemFor(retrysafe.CodeBodyIncomplete, errBodyRead)
	}
	buf := newBuffer()
	buf.room = room
	if r.Body == nil || r.Body == http.NoBody {
		return buf, nil
	}
	if room != nil && cap(buf.b) > freeBody {
		// a reused buffer, which may be larger than this body needs
		buf.room = nil
		buf.free()
		buf = &buffer{b: make([]byte, 0, freeBody), room: room}
	}
	if p := buf.read(r, limit); p != nil {
		buf.free()
		return nil, p
	}
	return buf, nil
}

// read reads to the end.
func (b *buffer) read(r *http.Request, limit int64) *Problem {
	for {
		if len(b.b) == cap(b.b) && !b.more(r.ContentLength, limit) {
			return noRoom()
		}
		n, err := r.Body.Read(b.b[len(b.b):cap(b.b)])
		b.b = b.b[:len(b.b)+n]
		evicted := b.room != nil && !b.room.count(n)
		switch {
		case int64(len(b.b)) > limit:
			return problemFor(retrysafe.CodeBodyTooLarge, nil)
		case err == io.EOF: // compared without errors.Is: a Reader that wraps io.EOF broke off
			if r.ContentLength > 0 && int64(len(b.b)) != r.ContentLength {
				return problemFor(retrysafe.CodeBodyIncomplete, errBodyRead)
			}
			return nil
		case evicted:
			return noRoom()
		case err != nil:
			return bodyProblem(err)
		}
	}
}

// more doubles the buffer, but not beyond the announced length and one byte to see the end. It
// returns false if there is no room for that.
func (b *buffer) more(announced, limit int64) bool {
	size := max(min(2*int64(cap(b.b)), limit+1), int64(cap(b.b))+512)
	if announced > 0 && announced+1 < size {
		size = max(announced+1, int64(cap(b.b))+512)
	}
	if b.room != nil && !b.room.grow(size) {
		return false
	}
	b.b = append(make([]byte, 0, size), b.b...)
	return true
}

var errNoRoom = errors.New("there is no room for the body in memory; Options.Limit.Bodies bounds it")

func noRoom() *Problem {
	return problemFor(retrysafe.CodeNoRoom, errNoRoom).WithRetryAfter(time.Second)
}

var errBodyRead = errors.New("the body was read before it came to the middleware; Tenant, Operation and outer handlers must leave it alone")

func bodyProblem(err error) *Problem {
	var tooLarge *http.MaxBytesError // an outer handler has its own limit
	if errors.As(err, &tooLarge) {
		return problemFor(retrysafe.CodeBodyTooLarge, err)
	}
	return problemFor(retrysafe.CodeBodyIncomplete, err)
}

// body returns the bytes as a request body. A goroutine that outlives the handler may read it at
// any time, so this memory is not reused. Small bodies are copied, since they need no room. So is
// one that fills less than half of a reused buffer; a buffer with room is never larger than that.
func (b *buffer) body() io.ReadCloser {
	if len(b.b) == 0 {
		return http.NoBody
	}
	r := new(bodyReader)
	if b.given = len(b.b) > freeBody && 2*len(b.b) >= cap(b.b); b.given {
		r.Reset(b.b)
	} else {
		r.Reset(bytes.Clone(b.b))
	}
	return r
}

type bodyReader struct{ bytes.Reader }

func (*bodyReader) Close() error { return nil }

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

// arrival is a body that takes room. The lock of Bodies guards its fields.
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
	return &arrival{room: b, stop: stop, window: time.Now(), rate: math.Inf(1)}
}

// count counts n bytes that have arrived. It returns false if the body has been evicted.
func (a *arrival) count(n int) bool {
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
	if size <= freeBody || size <= a.taken {
		return true
	}
	end := time.Now().Add(roomWait)
	defer a.reads()
	for {
		ok, freed := a.room.reserve(a, size)
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

// reserve takes room for size bytes in all. If there is no room, it returns what to wait for, or
// nil if waiting does not help.
func (b *Bodies) reserve(a *arrival, size int64) (ok bool, freed <-chan struct{}) {
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
	a.room.mu.Lock()
	defer a.room.mu.Unlock()
	delete(a.room.arriving, a)
}

// leave gives the room back.
func (a *arrival) leave() {
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
