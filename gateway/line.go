package gateway

import (
	"bufio"
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

// line is a connection of HTTP/1.1 without TLS on which guarded requests are sent, one after the other, each once. net/http's Transport
// costs two goroutines a connection, sends requests again that it takes for replayable, and cannot be asked to wait a little first.
type line struct {
	*meter
	lines *lines
	host  string
	limit io.LimitedReader // of a head
	in    *bufio.Reader
	since time.Time // idle since
	used  bool      // for a request before
}

const (
	maxAnswerHead = 256 << 10
	idleTime      = 5 * time.Second // below the idle limits that servers usually have, so that it is this side that closes
	maxIdle       = 256             // connections kept for an address
)

// lines are the kept ones.
type lines struct {
	dialer *net.Dialer

	mu     sync.Mutex
	idle   map[string][]*line // the last one was used last
	reaper *time.Timer
	closed bool
}

func newLines(d *net.Dialer) *lines { return &lines{dialer: d, idle: map[string][]*line{}} }

// kept returns a kept connection that still stands, or nil.
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
		if time.Since(l.since) < idleTime && quiet(l.Conn) {
			return l
		}
		_ = l.Close() // the service has closed it, or has said what nobody asked for
	}
}

// dial makes a connection; trace of ctx is told how it went.
func (p *lines) dial(ctx context.Context, host string) (*line, error) {
	addr := host
	if _, _, err := net.SplitHostPort(host); err != nil {
		addr = net.JoinHostPort(strings.Trim(host, "[]"), "80")
	}
	c, err := p.dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, &unreachable{err}
	}
	l := &line{meter: &meter{Conn: c}, lines: p, host: host}
	l.limit.R = l.meter
	l.in = bufio.NewReaderSize(&l.limit, 8<<10)
	return l, nil
}

// keep takes a connection back.
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

// close ends the idle ones, and each other one once it is idle.
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

// got tells the trace of ctx that a request is about to travel on l.
func (l *line) got(ctx context.Context) {
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: l.meter, Reused: l.used})
	}
}

// write sends the request in one piece.
func (l *line) write(out *http.Request, body []byte) error {
	b := lineBuffers.Get().(*[]byte) //nolint:errcheck,forcetypeassert // the pool has nothing else
	defer lineBuffers.Put(b)
	*b = appendRequest((*b)[:0], out, body)
	_, err := l.Write(*b)
	return err
}

var lineBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// appendRequest appends the request as it goes over the wire. Its fields were read by net/http's server, which lets no line break through.
func appendRequest(b []byte, out *http.Request, body []byte) []byte {
	host := out.Host
	if host == "" {
		host = out.URL.Host
	}
	b = append(append(b, out.Method...), ' ')
	b = append(append(b, out.URL.RequestURI()...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, host...), "\r\n"...)
	for name, values := range out.Header {
		if name == "Content-Length" || name == "Host" || name == "User-Agent" && len(values) == 1 && values[0] == "" {
			continue
		}
		for _, v := range values {
			if strings.ContainsAny(name, "\r\n") || strings.ContainsAny(v, "\r\n") {
				continue
			}
			b = append(append(append(append(b, name...), ": "...), v...), "\r\n"...)
		}
	}
	b = append(strconv.AppendInt(append(b, "Content-Length: "...), int64(len(body)), 10), "\r\n\r\n"...)
	return append(b, body...)
}

var errHeadTooLarge = errors.New("the head of the answer is larger than 256 KiB")

// head reads the head of the answer; it waits for as long as the connection lets it.
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

// ready waits until deadline for a whole head; false: it is not here, and nothing of what came is lost.
func (l *line) ready(deadline time.Time) bool {
	l.limit.N = maxAnswerHead
	_ = l.SetReadDeadline(deadline)
	defer l.SetReadDeadline(time.Time{}) //nolint:errcheck // a connection that is gone says so when it is read
	for n := 1; ; {
		if _, err := l.in.Peek(n); err != nil {
			return !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) && !errors.Is(err, bufio.ErrBufferFull) // the reader finds out
		}
		seen, _ := l.in.Peek(l.in.Buffered())
		if strings.Contains(string(seen), "\r\n\r\n") {
			return true
		}
		n = len(seen) + 1
	}
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// lineBody gives the connection back when the answer has been read to its end.
type lineBody struct {
	io.ReadCloser
	line   *line
	last   bool // the connection ends with this answer
	ended  bool
	closed bool
	stop   func() bool // of what closes the connection with the context
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
