package httpidem

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// buffer is memory that is used again for the next request. Nobody may keep its bytes after free: handlers never get it.
type buffer struct{ b []byte }

var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, 4<<10)} }}

// keepSize is the most that a buffer may have grown to and still be kept.
const keepSize = 256 << 10

func newBuffer() *buffer {
	return buffers.Get().(*buffer) //nolint:errcheck // the pool has nothing else
}

func (b *buffer) bytes() []byte { return b.b }

func (b *buffer) free() {
	if cap(b.b) > keepSize {
		return
	}
	b.b = b.b[:0]
	buffers.Put(b)
}

// readBodyIn is readBody within a time. A deadline that is left behind would end the request later.
func readBodyIn(w http.ResponseWriter, r *http.Request, limit time.Duration, size int64) (*buffer, *Problem) {
	if limit <= 0 || r.Body == nil || r.Body == http.NoBody {
		return readBody(r, size)
	}
	if _, here := r.Body.(interface{ Len() int }); here {
		return readBody(r, size) // in memory
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(limit)) // a writer that cannot has no connection that could be slow
	body, p := readBody(r, size)
	if p == nil {
		_ = rc.SetReadDeadline(time.Time{})
	}
	return body, p
}

// readBody reads the whole body, which must be known before anything is decided: it is part of the fingerprint, and a body that
// breaks off must not run.
func readBody(r *http.Request, limit int64) (*buffer, *Problem) {
	if r.ContentLength > limit {
		return nil, NewProblem("body-too-large", nil)
	}
	if r.PostForm != nil || r.MultipartForm != nil {
		// What is gone cannot be told from another request's.
		return nil, NewProblem("body-incomplete", errBodyRead)
	}
	buf := newBuffer()
	if r.Body == nil || r.Body == http.NoBody {
		return buf, nil
	}
	for {
		if len(buf.b) == cap(buf.b) {
			buf.b = append(buf.b, 0)[:len(buf.b)]
		}
		n, err := r.Body.Read(buf.b[len(buf.b):cap(buf.b)])
		buf.b = buf.b[:len(buf.b)+n]
		switch {
		case int64(len(buf.b)) > limit:
			buf.free()
			return nil, NewProblem("body-too-large", nil)
		case err == io.EOF: // itself: a Reader that wraps it broke off
			if r.ContentLength > 0 && int64(len(buf.b)) != r.ContentLength {
				buf.free()
				return nil, NewProblem("body-incomplete", errBodyRead)
			}
			return buf, nil
		case err != nil:
			buf.free()
			return nil, bodyProblem(err)
		}
	}
}

var errBodyRead = errors.New("the body was read before it came to the middleware; Tenant, Operation and outer handlers must leave it alone")

func bodyProblem(err error) *Problem {
	var tooLarge *http.MaxBytesError // an outer handler has a limit of its own
	if errors.As(err, &tooLarge) {
		return NewProblem("body-too-large", err)
	}
	return NewProblem("body-incomplete", err)
}

// body returns a copy of the bytes as a request's body. What a handler leaves behind may read it for as long as it likes.
func (b *buffer) body() io.ReadCloser {
	if len(b.b) == 0 {
		return http.NoBody
	}
	r := new(bodyReader)
	r.Reset(bytes.Clone(b.b))
	return r
}

type bodyReader struct{ bytes.Reader }

func (*bodyReader) Close() error { return nil }
