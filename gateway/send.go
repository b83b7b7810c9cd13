package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

// sender is what stands behind the guard of a route.
type sender struct {
	*Gateway
	middleware *httpidem.Middleware
	keys       []string // the headers that may have the key, in canonical form
	timeout    time.Duration
	limit      int64 // of an answer that is kept
}

// ServeHTTP sends what carries an attempt at most once, and proxies all else as usual.
func (g *sender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a, ok := retrysafe.AttemptFrom(r.Context()); ok {
		g.sendOnce(w, r, a)
		return
	}
	g.plain.ServeHTTP(w, r)
}

// sendOnce sends a guarded request upstream at most once, and settles its attempt where there is no whole answer. What was not sent
// is released. Everything else may have happened: in doubt under Refuse; under Reexecute the lease is left to lapse, for the
// service may still be working.
func (g *sender) sendOnce(w http.ResponseWriter, r *http.Request, a *retrysafe.Attempt) {
	body, err := io.ReadAll(r.Body) // in memory already
	if err != nil {
		_ = a.Release(r.Context(), err)
		g.middleware.Problem(w, r, httpidem.NewProblem("body-incomplete", err))
		return
	}
	ctx, cancel := context.WithCancelCause(a.Context())
	defer cancel(nil)
	// The time counts for the upstream alone: a client that reads slowly does not make an answer late.
	limit := time.AfterFunc(g.timeout, func() { cancel(context.DeadlineExceeded) })
	defer limit.Stop()
	resp, t, err := g.send(ctx, r, a, body)
	if err != nil {
		g.failed(w, r, a, t, errors.Join(context.Cause(ctx), err))
		return
	}
	defer resp.Body.Close()
	g.answer(w, r, a, resp, limit)
}

// send tries again only where certainly nothing was sent: on a kept connection that the upstream had closed.
func (g *sender) send(ctx context.Context, r *http.Request, a *retrysafe.Attempt, body []byte) (*http.Response, *trip, error) {
	for {
		t := new(trip)
		resp, err := g.wire.RoundTrip(g.outgoing(t.follow(ctx), r, a, body))
		if err == nil {
			return resp, t, nil
		}
		if !t.reused || !t.notSent() || ctx.Err() != nil {
			return nil, t, err
		}
	}
}

// outgoing is the request as the upstream gets it.
func (g *sender) outgoing(ctx context.Context, r *http.Request, a *retrysafe.Attempt, body []byte) *http.Request {
	in := r.Clone(ctx)
	in.Body, in.GetBody, in.ContentLength, in.TransferEncoding, in.RequestURI = http.NoBody, nil, 0, nil, ""
	dropHopByHop(in.Header)
	for _, name := range []string{"Expect", "Forwarded", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		delete(in.Header, name) // the body is here, so that there is nothing to wait for; and only we say how it came
	}
	p := httputil.ProxyRequest{In: r, Out: in}
	g.rewrite(&p)
	out := p.Out
	for _, name := range g.keys { // a client that names it in Connection does not take it from the service
		if r.Header[name] != nil {
			out.Header[name] = r.Header[name]
		}
	}
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = []string{""} // or net/http would add its own
	}
	out.Header["Idempotency-Attempt"] = []string{strconv.Itoa(a.N())}
	out.Header["Idempotency-Fence"] = []string{strconv.FormatUint(uint64(a.Fence()), 10)}
	if len(body) > 0 {
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	out.Close = false
	return out
}

var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

func dropHopByHop(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
}

// doubt is why an outcome is unknown, in a word for the record.
type doubt struct {
	cause string
	err   error
}

func (d *doubt) Error() string      { return d.cause + ": " + d.err.Error() }
func (d *doubt) Unwrap() error      { return d.err }
func (d *doubt) DoubtCause() string { return d.cause }

// failed settles a request that got no answer, and tells the client.
func (g *sender) failed(w http.ResponseWriter, r *http.Request, a *retrysafe.Attempt, t *trip, err error) {
	if t.notSent() {
		g.logger.Warn("upstream cannot be reached; nothing was sent", "method", r.Method, "path", r.URL.EscapedPath(), "cause", class(err))
		_ = a.Release(r.Context(), err)
		g.middleware.Problem(w, r, httpidem.NewProblem("upstream-unreachable", err).RetryAfter(time.Second))
		return
	}
	why := &doubt{cause: "reset", err: err}
	status := http.StatusGatewayTimeout
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		why.cause = "timeout"
	case t.answered() && !broken(err):
		why.cause, status = "garbage", http.StatusBadGateway
	}
	g.unknown(r, a, why)
	g.middleware.Problem(w, r, httpidem.NewProblem("outcome-unknown", why).WithStatus(status))
}

// class is what a log may say of an error: the text of some has parts of what the upstream said.
func class(err error) string {
	var op *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "time-out"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.As(err, &op):
		return op.Error() // addresses and system calls
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	}
	return fmt.Sprintf("%T", err)
}

// broken tells a connection that broke from an answer that made no sense.
func broken(err error) bool {
	var netErr net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.As(err, &netErr)
}

// unknown settles an attempt that may have taken effect.
func (g *Gateway) unknown(r *http.Request, a *retrysafe.Attempt, why *doubt) {
	g.logger.Warn("outcome unknown", "method", r.Method, "path", r.URL.EscapedPath(), "cause", why.cause, "attempt", a.N(), "error", class(why.err))
	if a.Policy().OnDoubt == retrysafe.Reexecute {
		a.Lapse(why)
		return
	}
	_ = a.Doubt(r.Context(), why)
}

// answer passes the upstream's answer on. Nothing is given to the client before the whole of it is here, unless it is too large to
// be kept or a stream of events.
func (g *sender) answer(w http.ResponseWriter, r *http.Request, a *retrysafe.Attempt, resp *http.Response, limit *time.Timer) {
	if resp.StatusCode < http.StatusOK { // 101: nobody asked for an upgrade
		why := &doubt{cause: "garbage", err: errors.New("the answer switches protocols")}
		g.unknown(r, a, why)
		g.middleware.Problem(w, r, httpidem.NewProblem("outcome-unknown", why).WithStatus(http.StatusBadGateway))
		return
	}
	events := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	var first []byte
	var err error
	if !events {
		first, err = io.ReadAll(io.LimitReader(resp.Body, g.limit+1))
		if err != nil {
			why := &doubt{cause: "truncated", err: err}
			g.unknown(r, a, why)
			g.middleware.Problem(w, r, httpidem.NewProblem("outcome-unknown", why).WithStatus(http.StatusGatewayTimeout))
			return
		}
	}
	limit.Stop()
	h := w.Header()
	dropHopByHop(resp.Header)
	for name, values := range resp.Header {
		h[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(first)
	if !events && int64(len(first)) <= g.limit {
		return
	}
	if err := g.copyOn(w, resp.Body, events, limit); err != nil {
		g.unknown(r, a, &doubt{cause: "truncated", err: err})
		panic(http.ErrAbortHandler) // the head is gone: the client must not take this answer for whole
	}
}

// clientTime is how long a client may take to read one part of an answer that is passed on as it comes.
const clientTime = 30 * time.Second

// copyOn returns the error of the upstream alone: that the client has gone, or reads too slowly, stops nothing. Each part of the
// upstream's may take as long as a whole answer.
func (g *sender) copyOn(w http.ResponseWriter, from io.Reader, flush bool, limit *time.Timer) error {
	rc := http.NewResponseController(w)
	buf := make([]byte, 32<<10)
	for {
		limit.Reset(g.timeout)
		n, err := from.Read(buf)
		limit.Stop()
		if n > 0 {
			_ = rc.SetWriteDeadline(time.Now().Add(clientTime))
			_, _ = w.Write(buf[:n])
			if flush {
				_ = rc.Flush()
			}
		}
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
