package httpidem

import (
	"bytes"
	"errors"
	"io"
	"net/http"
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

func (b *buffer) bytes() []byte { return b.b }

func (b *buffer) free() {
	b.room.leave()
	b.room = nil
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

// readBodyIn is readBody with a time limit, and with room from LimitOptions.Bodies. It clears the
// read deadline afterwards; otherwise that would end the request later.
func (m *Middleware) readBodyIn(w http.ResponseWriter, r *http.Request) (*buffer, *Problem) {
	limit, size := m.o.Limit.BodyTime, m.o.Limit.Body
	if limit <= 0 && m.o.Limit.Bodies == nil || r.Body == nil || r.Body == http.NoBody {
		return readBody(r, size, nil)
	}
	if _, here := r.Body.(interface{ Len() int }); here {
		return readBody(r, size, nil) // in memory
	}
	rc := http.NewResponseController(w)
	room := m.o.Limit.Bodies.arrive(func() { _ = rc.SetReadDeadline(time.Unix(1, 0)) })
	if limit > 0 {
		// a ResponseWriter without read deadlines has no connection that could be slow
		_ = rc.SetReadDeadline(time.Now().Add(limit))
	}
	body, p := readBody(r, size, room)
	room.arrived()
	if p == nil && (limit > 0 || room != nil) {
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
		here := b.room.came(n)
		switch {
		case int64(len(b.b)) > limit:
			return problemFor(retrysafe.CodeBodyTooLarge, nil)
		case err == io.EOF: // compared without errors.Is: a Reader that wraps io.EOF broke off
			if r.ContentLength > 0 && int64(len(b.b)) != r.ContentLength {
				return problemFor(retrysafe.CodeBodyIncomplete, errBodyRead)
			}
			return nil
		case !here:
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
	if !b.room.grow(size) {
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
