package h1client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/retrysafe/retrysafe/gateway/internal/h1"
)

// Conn is a connection of HTTP/1.1 without TLS on which guarded requests are sent, one after the
// other, each once. net/http's Transport costs two goroutines a connection, retries requests that
// it considers replayable, and cannot be asked to wait a little first.
type Conn struct {
	*meter
	pool  *Pool
	host  string
	limit io.LimitedReader // of a head
	in    *bufio.Reader
	since time.Time // idle since
	used  bool      // by an earlier request
	until time.Time // deadline of reads and writes; zero: none
	peek  *h1.Peeker
	stop  func() bool // stops closing it with a context; nil: it is not closed with one

	// Broken is set by the owner if a write broke off.
	Broken bool
}

const maxHead = 256 << 10 // of an answer, in bytes

// Got reports to the trace of ctx that a request is about to be sent on l.
func (c *Conn) Got(ctx context.Context) {
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: c.meter, Reused: c.used})
	}
}

// CloseWith closes the connection when ctx ends, unless it was kept or closed before.
func (c *Conn) CloseWith(ctx context.Context) {
	c.stop = context.AfterFunc(ctx, func() { _ = c.Close() })
}

// unwatch ends CloseWith. It returns false if the connection was closed by it.
func (c *Conn) unwatch() bool {
	if c.stop == nil {
		return true
	}
	stop := c.stop
	c.stop = nil
	return stop()
}

// Abandon closes a connection whose request or answer broke off.
func (c *Conn) Abandon() {
	c.unwatch()
	_ = c.Close()
}

// Keep keeps the connection for reuse, after its answer has been read to the end.
func (c *Conn) Keep() { c.pool.keep(c) }

// LimitTime sets a deadline for reads and writes: between d and 2d from now, so that it is not set
// again for each request. Zero removes it.
func (c *Conn) LimitTime(d time.Duration) {
	now := time.Now()
	switch {
	case d == 0 && c.until.IsZero(), d > 0 && c.until.Sub(now) >= d:
		return
	case d == 0:
		c.until = time.Time{}
	default:
		c.until = now.Add(2 * d)
	}
	_ = c.SetDeadline(c.until) // an error shows at the next use
}

// Send sends the request: in one write if the body is small, and else without copying the body.
func (c *Conn) Send(m *Request, body []byte) error {
	b := sendBuffers.Get().(*[]byte) //nolint:errcheck,forcetypeassert // the pool has nothing else
	defer sendBuffers.Put(b)
	if len(body) <= copiedBody {
		*b = append(m.append((*b)[:0], len(body)), body...)
		_, err := c.Write(*b)
		return err
	}
	*b = m.append((*b)[:0], len(body))
	_, err := c.Write(*b)
	if err == nil {
		_, err = c.Write(body)
	}
	return err
}

var errHeadTooLarge = errors.New("the head of the answer is larger than 256 KiB")

// Head reads the head of the answer, and waits as long as the deadline allows.
func (c *Conn) Head(out *http.Request) (*http.Response, error) {
	for {
		c.limit.N = maxHead
		resp, err := http.ReadResponse(c.in, out)
		if err != nil && c.limit.N <= 0 {
			err = errHeadTooLarge
		}
		if err != nil {
			return nil, err
		}
		c.limit.N = math.MaxInt64
		if resp.StatusCode >= http.StatusOK || resp.StatusCode == http.StatusSwitchingProtocols {
			resp.Body = &answerBody{ReadCloser: resp.Body, conn: c, last: resp.Close || resp.StatusCode == http.StatusSwitchingProtocols}
			return resp, nil
		}
	}
}

// Ready waits for a whole head, as long as the deadline allows. False without an error means that
// it has not arrived yet, and that nothing of what has arrived is lost. After an error, head
// returns what is wrong.
func (c *Conn) Ready() (bool, error) {
	c.limit.N = maxHead
	for n := 1; ; {
		if _, err := c.in.Peek(n); err != nil {
			if isTimeout(err) || errors.Is(err, bufio.ErrBufferFull) {
				return false, nil
			}
			return false, err
		}
		seen, _ := c.in.Peek(c.in.Buffered())
		if bytes.Contains(seen, headEnd) {
			return true, nil
		}
		n = len(seen) + 1
	}
}

var headEnd = []byte("\r\n\r\n")

// Whole reads an answer of the usual kind, with a body of at most limit bytes, as net/http would. A
// nil resp means that it is of another kind or not complete, and that nothing was read.
func (c *Conn) Whole(limit int64) (resp *http.Response, body []byte) {
	seen, _ := c.in.Peek(c.in.Buffered())
	end := bytes.Index(seen, headEnd)
	resp = usualAnswer(string(seen[:end+2]))
	if resp == nil || resp.ContentLength > limit || EventStream(resp) {
		return nil, nil
	}
	length := end + len(headEnd) + int(resp.ContentLength)
	seen, err := c.in.Peek(length)
	if err != nil {
		return nil, nil
	}
	body = bytes.Clone(seen[end+len(headEnd):])
	_, _ = c.in.Discard(length)
	return resp, body
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// answerBody keeps the connection for reuse when the answer has been read to its end.
type answerBody struct {
	io.ReadCloser
	conn   *Conn
	last   bool // the connection ends with this answer
	ended  bool
	closed bool
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		b.ended = true
	}
	return n, err
}

// Close implements [io.Closer].
func (b *answerBody) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	intact := b.conn.unwatch()
	if b.ended && !b.last && intact {
		b.conn.Keep()
		return nil
	}
	return b.conn.Close()
}
