package gateway

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
)

// quickTime is how long an answer is waited for on the goroutine of the request. One that takes longer has its costs elsewhere.
const quickTime = 100 * time.Millisecond

// quickBody is the largest request that is written there, in bytes: a service that does not read must not hold it up.
const quickBody = 16 << 10

// quick does the whole exchange if a connection is kept and the service answers soon, as it mostly is: it needs no other goroutine.
// False: it did not come to an end, and exchange goes on where it stands; nothing was lost.
func (g *sender) quick(ctx context.Context, x *exchange, out *http.Request, a *retrysafe.Attempt, body []byte) bool {
	u := g.upstreams.pick(nil)
	x.turn = u
	if u.url.Scheme != "http" || len(body) > quickBody {
		return false
	}
	try := to(u, ctx, out, body)
	l := g.wire.lines.kept(try.URL.Host)
	if l == nil {
		return false
	}
	x.trip = new(trip)
	x.trip.take(l)
	x.connected.Store(true)
	if err := sure(ctx, a); err != nil {
		x.trip.stop(err)
		_ = l.Close()
		x.fail(ctx, err)
		return true
	}
	if err := x.put(ctx, l, try, body); err != nil {
		x.connected.Store(false)
		return false // the service had closed it; another connection may do
	}
	deadline := time.Now().Add(min(quickTime, g.timeout))
	if !l.ready(deadline) {
		return false
	}
	if err := x.receive(try); err != nil {
		x.fail(ctx, err)
		return true
	}
	return g.short(x, deadline)
}

// short reads the body of an answer that is as long as it says, and not too long, until deadline.
func (g *sender) short(x *exchange, deadline time.Time) bool {
	resp := x.resp
	if events(resp) || !status(resp) {
		return true
	}
	if resp.ContentLength < 0 || resp.ContentLength > g.limit {
		return false
	}
	x.first = make([]byte, resp.ContentLength)
	_ = x.line.SetReadDeadline(deadline)
	n, err := io.ReadFull(resp.Body, x.first)
	_ = x.line.SetReadDeadline(time.Time{})
	x.first = x.first[:n]
	switch {
	case isTimeout(err):
		return false
	case err != nil && resp.ContentLength > 0:
		x.cut = err
		return true
	}
	var end [1]byte
	_, _ = resp.Body.Read(end[:]) // it has ended; the connection can be kept
	return true
}

// overLine sends on a kept connection, or a new one, and waits for the head of the answer.
func (x *exchange) overLine(ctx context.Context, lines *lines, try *http.Request, body []byte) (err error) {
	l := lines.kept(try.URL.Host)
	if l == nil {
		if l, err = lines.dial(try.Context(), try.URL.Host); err != nil {
			return err
		}
	}
	l.got(try.Context())
	if err := x.put(ctx, l, try, body); err != nil {
		return err
	}
	if err = x.receive(try); err != nil {
		x.line = nil
	}
	return err
}

// put writes the request. An error says that nothing of it was sent. Where it broke off in the middle the service may have answered
// already, before it had read all, and may have closed its side since: that answer is read.
func (x *exchange) put(ctx context.Context, l *line, try *http.Request, body []byte) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	if err := l.write(try, body); err != nil {
		if x.trip.notSent(err) {
			stop()
			_ = l.Close()
			return err
		}
		_ = l.SetReadDeadline(time.Now().Add(time.Second))
	}
	x.line, x.stop = l, stop
	return nil
}

// receive reads the head of the answer on x.line.
func (x *exchange) receive(out *http.Request) error {
	resp, err := x.line.head(out) //nolint:bodyclose // conclude does
	if err != nil {
		x.stop()
		_ = x.line.Close()
		x.sent = true
		return err
	}
	if b, ok := resp.Body.(*lineBody); ok {
		b.stop = x.stop
	}
	x.resp = resp
	return nil
}
