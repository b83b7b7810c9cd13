package gateway

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
	"strconv"
	"strings"
	"sync"
	"time"
)

// line is a connection of HTTP/1.1 without TLS on which guarded requests are sent, one after the
// other, each once. net/http's Transport costs two goroutines a connection, retries requests that
// it considers replayable, and cannot be asked to wait a little first.
type line struct {
	*meter
	lines *lines
	host  string
	limit io.LimitedReader // of a head
	in    *bufio.Reader
	since time.Time // idle since
	used  bool      // by an earlier request
	until time.Time // deadline of reads and writes; zero: none
	peek  *peeker

	broken bool // a write broke off
}

const (
	maxAnswerHead = 256 << 10
	// below the usual idle limits of servers, so that the gateway closes first
	idleTime = 5 * time.Second
	maxIdle  = 256 // connections kept for an address
)

// lines are the kept connections.
type lines struct {
	dialer *net.Dialer

	mu     sync.Mutex
	idle   map[string][]*line // the most recently used one is last
	reaper *time.Timer
	closed bool
}

func newLines(d *net.Dialer) *lines { return &lines{dialer: d, idle: map[string][]*line{}} }

// kept returns a kept connection that is still open, or nil.
func (p *lines) kept(host string) *line {
	for {
		p.mu.Lock()
		all := p.idle[host]
		if len(all) == 0 {
			p.mu.Unlock()
			return nil
		}
		l := all[len(all)-1]
		p.idle[host] = all[:len(all)-1]
		p.mu.Unlock()
		if time.Since(l.since) < idleTime && l.peek.quiet() {
			return l
		}
		_ = l.Close() // the service has closed it, or has sent something unasked
	}
}

// dial makes a connection, and reports its progress to the trace of ctx.
func (p *lines) dial(ctx context.Context, host string) (*line, error) {
	addr := host
	if _, _, err := net.SplitHostPort(host); err != nil {
		addr = net.JoinHostPort(strings.Trim(host, "[]"), "80")
	}
	c, err := p.dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, &unreachable{err}
	}
	l := &line{meter: &meter{Conn: c}, lines: p, host: host, peek: newPeeker(c)}
	l.limit.R = l.meter
	l.in = bufio.NewReaderSize(&l.limit, 8<<10)
	return l, nil
}

// keep keeps a connection for reuse.
func (p *lines) keep(l *line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle[l.host]) >= maxIdle || l.in.Buffered() > 0 {
		_ = l.Close()
		return
	}
	l.since, l.used = time.Now(), true
	p.idle[l.host] = append(p.idle[l.host], l)
	if p.reaper == nil {
		p.reaper = time.AfterFunc(idleTime, p.reap)
	}
}

// reap closes what has been idle for too long.
func (p *lines) reap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaper = nil
	left := false
	for host, all := range p.idle {
		n := 0
		for n < len(all) && time.Since(all[n].since) >= idleTime {
			_ = all[n].Close()
			n++
		}
		p.idle[host] = append([]*line(nil), all[n:]...)
		left = left || len(all) > n
	}
	if left && !p.closed {
		p.reaper = time.AfterFunc(idleTime/4, p.reap)
	}
}

// close closes the idle connections; each other one closes once it is idle.
func (p *lines) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for host, all := range p.idle {
		for _, l := range all {
			_ = l.Close()
		}
		delete(p.idle, host)
	}
}

// got reports to the trace of ctx that a request is about to be sent on l.
func (l *line) got(ctx context.Context) {
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: l.meter, Reused: l.used})
	}
}

// limitTime sets a deadline for reads and writes: between d and 2d from now, so that it is not set
// again for each request. Zero removes it.
func (l *line) limitTime(d time.Duration) {
	now := time.Now()
	switch {
	case d == 0 && l.until.IsZero(), d > 0 && l.until.Sub(now) >= d:
		return
	case d == 0:
		l.until = time.Time{}
	default:
		l.until = now.Add(2 * d)
	}
	_ = l.SetDeadline(l.until) // an error shows at the next use
}

// write sends the request in one piece.
func (l *line) write(m *message, body []byte) error {
	b := lineBuffers.Get().(*[]byte) //nolint:errcheck,forcetypeassert // the pool has nothing else
	defer lineBuffers.Put(b)
	*b = m.append((*b)[:0], body)
	_, err := l.Write(*b)
	return err
}

var lineBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// message is the head of a request as it is sent.
type message struct {
	method, target, host string
	fields               func(give func(name, value string))
}

// headOf returns the head of a request of net/http.
func headOf(out *http.Request) *message {
	return &message{out.Method, out.URL.RequestURI(), out.URL.Host, func(give func(name, value string)) {
		for name, values := range out.Header {
			for _, v := range values {
				give(name, v)
			}
		}
	}}
}

// append appends the request. It omits fields with line breaks; a client's fields have none.
func (m *message) append(b, body []byte) []byte {
	b = append(append(b, m.method...), ' ')
	b = append(append(b, m.target...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, m.host...), "\r\n"...)
	m.fields(func(name, value string) {
		switch {
		case name == "Content-Length", name == "Host", name == "User-Agent" && value == "":
		case strings.ContainsAny(name, "\r\n"), strings.ContainsAny(value, "\r\n"):
		default:
			b = append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
		}
	})
	b = append(strconv.AppendInt(append(b, "Content-Length: "...), int64(len(body)), 10), "\r\n\r\n"...)
	return append(b, body...)
}

var errHeadTooLarge = errors.New("the head of the answer is larger than 256 KiB")

// head reads the head of the answer, and waits as long as the deadline allows.
func (l *line) head(out *http.Request) (*http.Response, error) {
	for {
		l.limit.N = maxAnswerHead
		resp, err := http.ReadResponse(l.in, out)
		if err != nil && l.limit.N <= 0 {
			err = errHeadTooLarge
		}
		if err != nil {
			return nil, err
		}
		l.limit.N = math.MaxInt64
		if resp.StatusCode >= http.StatusOK || resp.StatusCode == http.StatusSwitchingProtocols {
			resp.Body = &lineBody{ReadCloser: resp.Body, line: l, last: resp.Close || resp.StatusCode == http.StatusSwitchingProtocols}
			return resp, nil
		}
	}
}

// ready waits for a whole head, as long as the deadline allows. False without an error means that
// it has not arrived yet, and that nothing of what has arrived is lost. After an error, head
// returns what is wrong.
func (l *line) ready() (bool, error) {
	l.limit.N = maxAnswerHead
	for n := 1; ; {
		if _, err := l.in.Peek(n); err != nil {
			if isTimeout(err) || errors.Is(err, bufio.ErrBufferFull) {
				return false, nil
			}
			return false, err
		}
		seen, _ := l.in.Peek(l.in.Buffered())
		if bytes.Contains(seen, headEnd) {
			return true, nil
		}
		n = len(seen) + 1
	}
}

var headEnd = []byte("\r\n\r\n")

// whole reads an answer of the usual kind, as net/http would. False means that it is of another
// kind or not complete, and that nothing was read.
func (l *line) whole(x *exchange, limit int64) bool {
	seen, _ := l.in.Peek(l.in.Buffered())
	end := bytes.Index(seen, headEnd)
	resp := usualAnswer(string(seen[:end+2])) //nolint:bodyclose // there is none
	if resp == nil || resp.ContentLength > limit || events(resp) {
		return false
	}
	length := end + len(headEnd) + int(resp.ContentLength)
	seen, err := l.in.Peek(length)
	if err != nil {
		return false
	}
	x.resp, x.start = resp, bytes.Clone(seen[end+len(headEnd):])
	_, _ = l.in.Discard(length)
	return true
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// lineBody keeps the connection for reuse when the answer has been read to its end.
type lineBody struct {
	io.ReadCloser
	line   *line
	last   bool // the connection ends with this answer
	ended  bool
	closed bool
	stop   func() bool // stops closing the connection with the context
}

func (b *lineBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		b.ended = true
	}
	return n, err
}

// Close implements [io.Closer].
func (b *lineBody) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	intact := b.stop == nil || b.stop()
	if b.ended && !b.last && intact {
		b.line.lines.keep(b.line)
		return nil
	}
	return b.line.Close()
}
