package gateway

import (
	"bytes"
	"context"
	"errors"
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

// sendOnce sends a guarded request upstream at most once, and settles its attempt where there is no whole answer. What was not sent
// is released. Everything else may have happened: in doubt under Refuse; under Reexecute the lease is left to lapse, for the
// service may still be working.
func (g *Gateway) sendOnce(w http.ResponseWriter, r *http.Request, a *retrysafe.Attempt) {
	body, err := io.ReadAll(r.Body) // in memory already
	if err != nil {
		_ = a.Release(r.Context(), err)
		httpidem.NewProblem("body-incomplete", err).ServeHTTP(w, r)
		return
	}
	ctx, cancel := context.WithTimeout(a.Context(), g.timeout)
	defer cancel()
	resp, t, err := g.send(ctx, r, a, body)
	if err != nil {
		g.failed(w, r, a, t, err)
		return
	}
	defer resp.Body.Close()
	g.answer(w, r, a, resp)
}

// send tries again only where certainly nothing was sent: on a kept connection that the upstream had closed.
func (g *Gateway) send(ctx context.Context, r *http.Request, a *retrysafe.Attempt, body []byte) (*http.Response, *trip, error) {
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
func (g *Gateway) outgoing(ctx context.Context, r *http.Request, a *retrysafe.Attempt, body []byte) *http.Request {
	in := r.Clone(ctx)
	in.Body, in.GetBody, in.ContentLength, in.TransferEncoding, in.RequestURI = http.NoBody, nil, 0, nil, ""
	p := httputil.ProxyRequest{In: r, Out: in}
	g.rewrite(&p)
	out := p.Out
	dropHopByHop(out.Header)
	delete(out.Header, "Expect") // the body is here: there is nothing to wait for
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
func (g *Gateway) failed(w http.ResponseWriter, r *http.Request, a *retrysafe.Attempt, t *trip, err error) {
	if t.notSent() {
		g.logger.Warn("upstream cannot be reached; nothing was sent", "method", r.Method, "path", r.URL.EscapedPath(), "error", err)
		_ = a.Release(r.Context(), err)
		httpidem.NewProblem("upstream-unreachable", err).RetryAfter(time.Second).ServeHTTP(w, r)
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
	httpidem.NewProblem("outcome-unknown", why).WithStatus(status).ServeHTTP(w, r)
}

// broken tells a connection that broke from an answer that made no sense.
func broken(err error) bool {
	var netErr net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.As(err, &netErr)
}

// unknown settles an attempt that may have taken effect.
func (g *Gateway) unknown(r *http.Request, a *retrysafe.Attempt, why *doubt) {
	g.logger.Warn("outcome unknown", "method", r.Method, "path", r.URL.EscapedPath(), "cause", why.cause, "attempt", a.N(), "error", why.err)
	if a.Policy().OnDoubt == retrysafe.Reexecute {
		a.Lapse(why)
		return
	}
	_ = a.Doubt(r.Context(), why)
}

// answer passes the upstream's answer on. Nothing is given to the client before the whole of it is here, unless it is too large to
// be kept or a stream of events.
func (g *Gateway) answer(w http.ResponseWriter, r *http.Request, a *retrysafe.Attempt, resp *http.Response) {
	if resp.StatusCode < http.StatusOK { // 101: nobody asked for an upgrade
		why := &doubt{cause: "garbage", err: errors.New("the answer switches protocols")}
		g.unknown(r, a, why)
		httpidem.NewProblem("outcome-unknown", why).WithStatus(http.StatusBadGateway).ServeHTTP(w, r)
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
			httpidem.NewProblem("outcome-unknown", why).WithStatus(http.StatusGatewayTimeout).ServeHTTP(w, r)
			return
		}
	}
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
	if err := copyFlushing(w, resp.Body, events); err != nil {
		g.unknown(r, a, &doubt{cause: "truncated", err: err})
		panic(http.ErrAbortHandler) // the head is gone: the client must not take this answer for whole
	}
}

// copyFlushing returns the error of the upstream alone: that the client has gone stops nothing.
func copyFlushing(w http.ResponseWriter, from io.Reader, flush bool) error {
	rc := http.NewResponseController(w)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
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
