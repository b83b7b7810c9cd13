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

// buffer is memory that is reused for later requests, unless requestBody gives it to a handler. No
// other code may keep its bytes after free.
type buffer struct {
	b         []byte
	arrival   *arrivingBody // of a request body
	handedOut bool          // to a handler
}

var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, 4<<10)} }}

// maxKeptBuffer is the largest capacity of a buffer that is kept for reuse.
const maxKeptBuffer = 256 << 10

func newBuffer() *buffer {
	return buffers.Get().(*buffer) //nolint:errcheck // the pool has nothing else
}

func (b *buffer) free() {
	if b.arrival != nil {
		b.arrival.freeRoom()
		b.arrival = nil
	}
	if b.handedOut {
		b.b = nil
		return
	}
	if cap(b.b) > maxKeptBuffer {
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
	var room *arrivingBody
	if m.o.Limit.Bodies != nil {
		room = m.o.Limit.Bodies.beginArrival(func() { _ = rc.SetReadDeadline(time.Unix(1, 0)) })
	}
	if limit > 0 {
		// a ResponseWriter without read deadlines has no connection that could be slow
		_ = rc.SetReadDeadline(time.Now().Add(limit))
	}
	body, p := readBody(r, size, room)
	if room != nil {
		room.markWhole()
	}
	if p == nil {
		_ = rc.SetReadDeadline(time.Time{})
	}
	return body, p
}

// readBody reads the whole body. It must be known before anything is decided: it is part of the
// fingerprint, and a request whose body breaks off must not run.
func readBody(r *http.Request, limit int64, room *arrivingBody) (*buffer, *Problem) {
	if r.ContentLength > limit {
		return nil, problemFor(retrysafe.CodeBodyTooLarge, nil)
	}
	if r.PostForm != nil || r.MultipartForm != nil {
		// A body that has been read cannot be compared with another request's.
		return nil, problemFor(retrysafe.CodeBodyIncomplete, errBodyRead)
	}
	buf := newBuffer()
	buf.arrival = room
	if r.Body == nil || r.Body == http.NoBody {
		return buf, nil
	}
	if room != nil && cap(buf.b) > freeBody {
		// a reused buffer, which may be larger than this body needs
		buf.arrival = nil
		buf.free()
		buf = &buffer{b: make([]byte, 0, freeBody), arrival: room}
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
		if len(b.b) == cap(b.b) && !b.grow(r.ContentLength, limit) {
			return noRoomProblem()
		}
		n, err := r.Body.Read(b.b[len(b.b):cap(b.b)])
		b.b = b.b[:len(b.b)+n]
		evicted := b.arrival != nil && !b.arrival.countBytes(n)
		switch {
		case int64(len(b.b)) > limit:
			return problemFor(retrysafe.CodeBodyTooLarge, nil)
		case err == io.EOF: // compared without errors.Is: a Reader that wraps io.EOF broke off
			if r.ContentLength > 0 && int64(len(b.b)) != r.ContentLength {
				return problemFor(retrysafe.CodeBodyIncomplete, errBodyRead)
			}
			return nil
		case evicted:
			return noRoomProblem()
		case err != nil:
			return bodyProblem(err)
		}
	}
}

// grow doubles the buffer, but not beyond the announced length and one byte to see the end. It
// returns false if there is no room for that.
func (b *buffer) grow(announced, limit int64) bool {
	size := max(min(2*int64(cap(b.b)), limit+1), int64(cap(b.b))+512)
	if announced > 0 && announced+1 < size {
		size = max(announced+1, int64(cap(b.b))+512)
	}
	if b.arrival != nil && !b.arrival.takeRoom(size) {
		return false
	}
	b.b = append(make([]byte, 0, size), b.b...)
	return true
}

var errNoRoom = errors.New("there is no room for the body in memory; Options.Limit.Bodies bounds it")

func noRoomProblem() *Problem {
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

// requestBody returns the bytes as a request body. A goroutine that outlives the handler may read
// it at any time, so this memory is not reused. Small bodies are copied, since they need no room.
// So is one that fills less than half of a reused buffer; a buffer with room is never larger than
// that.
func (b *buffer) requestBody() io.ReadCloser {
	if len(b.b) == 0 {
		return http.NoBody
	}
	r := new(bodyReader)
	if b.handedOut = len(b.b) > freeBody && 2*len(b.b) >= cap(b.b); b.handedOut {
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
	limit int64

	mu       sync.Mutex
	used     int64
	arriving map[*arrivingBody]struct{}
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
	return &Bodies{limit: most, arriving: map[*arrivingBody]struct{}{}, freed: make(chan struct{})}
}

// Size returns the room in bytes.
func (b *Bodies) Size() int64 { return b.limit }

// Used returns how many bytes are in use at present.
func (b *Bodies) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// arrivingBody is a body that takes room. The lock of Bodies guards its fields.
type arrivingBody struct {
	bodies      *Bodies
	taken       int64
	stop        func() // ends its reading
	evicted     bool   // evicted
	waiting     bool   // for room, and is not being read
	window      time.Time
	windowBytes int64   // since window
	rate        float64 // in the window before
}

// beginArrival begins to count a body. stop must end a blocked read of it.
func (b *Bodies) beginArrival(stop func()) *arrivingBody {
	return &arrivingBody{bodies: b, stop: stop, window: time.Now(), rate: math.Inf(1)}
}

// countBytes counts n bytes that have arrived. It returns false if the body has been evicted.
func (a *arrivingBody) countBytes(n int) bool {
	a.bodies.mu.Lock()
	defer a.bodies.mu.Unlock()
	a.windowBytes += int64(n)
	a.rollWindow(time.Now())
	return !a.evicted
}

// rollWindow begins another window if this one is over.
func (a *arrivingBody) rollWindow(now time.Time) {
	if since := now.Sub(a.window); since >= rateWindow {
		a.rate, a.window, a.windowBytes = float64(a.windowBytes)/since.Seconds(), now, 0
	}
}

// takeRoom takes room up to size. It returns false if there is none.
func (a *arrivingBody) takeRoom(size int64) bool {
	if size <= freeBody || size <= a.taken {
		return true
	}
	end := time.Now().Add(roomWait)
	defer a.resetRate()
	for {
		ok, freed := a.bodies.reserveRoom(a, size)
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

// resetRate restarts the measurement after a wait for room.
func (a *arrivingBody) resetRate() {
	a.bodies.mu.Lock()
	defer a.bodies.mu.Unlock()
	if a.waiting {
		a.waiting, a.window, a.windowBytes, a.rate = false, time.Now(), 0, math.Inf(1)
	}
}

// reserveRoom takes room for size bytes in all. If there is no room, it returns what to wait for,
// or nil if waiting does not help.
func (b *Bodies) reserveRoom(a *arrivingBody, size int64) (ok bool, freed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case a.evicted || size > b.limit:
		return false, nil
	case b.used+size-a.taken > b.limit:
		a.waiting = true
		b.evictSlowest(a)
		return false, b.freed
	}
	b.used += size - a.taken
	a.taken = size
	b.arriving[a] = struct{}{}
	return true, nil
}

// evictSlowest evicts the slowest body, if it is slow.
func (b *Bodies) evictSlowest(asks *arrivingBody) {
	var slowest *arrivingBody
	least := float64(leastRate)
	now := time.Now()
	for a := range b.arriving {
		a.rollWindow(now)
		if a != asks && !a.evicted && !a.waiting && a.rate < least {
			slowest, least = a, a.rate
		}
	}
	if slowest != nil {
		slowest.evicted = true
		slowest.stop()
	}
}

// markWhole marks the body as whole: it is not evicted any more. Its room stays taken.
func (a *arrivingBody) markWhole() {
	a.bodies.mu.Lock()
	defer a.bodies.mu.Unlock()
	delete(a.bodies.arriving, a)
}

// freeRoom gives the room back.
func (a *arrivingBody) freeRoom() {
	b := a.bodies
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
