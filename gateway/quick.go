package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
)

// quickTime is how long the goroutine of the request itself waits for the answer. An answer that
// takes longer needs another goroutine.
const quickTime = 100 * time.Millisecond

// quickBody is the largest request that is written on that goroutine, in bytes: a service that does
// not read must not block it.
const quickBody = 16 << 10

// quick does the whole exchange if there is a kept connection and the service answers soon, which
// is the usual case. It then needs no other goroutine, and nothing that cancels it early. It
// returns false if the exchange is not complete; exchange then continues where quick has stopped,
// and nothing is lost.
func (g *sender) quick(x *exchange, r *http.Request, a *retrysafe.Attempt, body []byte) bool {
	u := g.upstreams.pick(nil)
	x.turn = u
	if !u.bare || len(body) > quickBody || g.timeout < 2*quickTime {
		return false
	}
	l := g.wire.lines.kept(u.url.Host)
	if l == nil {
		return false
	}
	ctx := a.Context()
	x.trip = &x.first
	x.trip.take(l)
	x.connected.Store(true)
	if err := sure(ctx, a); err != nil {
		x.trip.stop(err)
		_ = l.Close()
		x.fail(ctx, err)
		return true
	}
	l.limitTime(quickTime)
	head := &message{r.Method, r.URL.RequestURI(), u.url.Host, func(give func(name, value string)) { g.fields(r, a, give) }}
	if err := x.put(l, head, body); err != nil {
		x.connected.Store(false)
		return false // the service had closed it; another connection may work
	}
	switch ready, err := l.ready(); {
	case err != nil:
		x.fail(ctx, x.receive(r))
		return true
	case !ready || !l.whole(x, g.limit):
		// the answer has not arrived, or is of another kind, which may take longer
		return false
	}
	x.line = nil
	l.lines.keep(l)
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
	l.limitTime(0)
	l.got(try.Context())
	x.stop = context.AfterFunc(ctx, func() { _ = l.Close() })
	if err := x.put(l, headOf(try), body); err != nil {
		x.stop()
		return err
	}
	if err = x.receive(try); err != nil {
		x.line = nil
	}
	return err
}

// watch prepares an exchange that quick has not completed: the connection is closed with ctx, and
// has no other deadline.
func (x *exchange) watch(ctx context.Context) {
	l := x.line
	if l == nil {
		return
	}
	l.limitTime(0)
	x.stop = context.AfterFunc(ctx, func() { _ = l.Close() })
	if x.resp != nil {
		if b, ok := x.resp.Body.(*lineBody); ok {
			b.stop = x.stop
		}
	}
}

// put writes the request. An error means that nothing of it was sent. If the write broke off in the
// middle, the service may have answered before it had read all, and may have closed its side since:
// that answer is read.
func (x *exchange) put(l *line, head *message, body []byte) error {
	if err := l.write(head, body); err != nil {
		if x.trip.notSent(err) {
			_ = l.Close()
			return err
		}
		l.broken = true
	}
	x.line = l
	return nil
}

// receive reads the head of the answer on x.line.
func (x *exchange) receive(out *http.Request) error {
	if x.line.broken {
		_ = x.line.SetReadDeadline(time.Now().Add(time.Second))
	}
	resp, err := x.line.head(out) //nolint:bodyclose // conclude does
	if err != nil {
		if x.stop != nil {
			x.stop()
		}
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
