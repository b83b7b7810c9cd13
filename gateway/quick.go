package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway/internal/h1client"
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
	c := g.transport.Pool.Kept(u.url.Host)
	if c == nil {
		return false
	}
	ctx := a.Context()
	x.delivery = &x.first
	x.delivery.Take(c)
	x.connected.Store(true)
	if err := sure(ctx, a); err != nil {
		x.delivery.Stop(err)
		_ = c.Close()
		x.fail(ctx, err)
		return true
	}
	c.LimitTime(quickTime)
	head := &h1client.Request{Method: r.Method, Target: r.URL.RequestURI(), Host: g.hostFor(u, r), Fields: func(give func(name, value string)) { g.fields(r, a, give) }}
	if err := x.put(c, head, body); err != nil {
		x.connected.Store(false)
		return false // the service had closed it; another connection may work
	}
	ready, err := c.Ready()
	if err != nil {
		x.fail(ctx, x.receive(r))
		return true
	}
	if ready {
		x.resp, x.start = c.Whole(g.limit) //nolint:bodyclose // conclude does
	}
	if x.resp == nil {
		// the answer has not arrived, or is of another kind, which may take longer
		return false
	}
	x.conn = nil
	c.Keep()
	return true
}

// overConn sends on a kept connection, or a new one, and waits for the head of the answer.
func (x *exchange) overConn(ctx context.Context, pool *h1client.Pool, try *http.Request, body []byte) (err error) {
	c := pool.Kept(try.URL.Host)
	if c == nil {
		if c, err = pool.Dial(try.Context(), try.URL.Host); err != nil {
			return err
		}
	}
	c.LimitTime(0)
	c.Got(try.Context())
	c.CloseWith(ctx)
	if err := x.put(c, h1client.HeadOf(try), body); err != nil {
		return err
	}
	if err = x.receive(try); err != nil {
		x.conn = nil
	}
	return err
}

// watch prepares an exchange that quick has not completed: the connection is closed with ctx, and
// has no other deadline.
func (x *exchange) watch(ctx context.Context) {
	if x.conn != nil {
		x.conn.LimitTime(0)
		x.conn.CloseWith(ctx)
	}
}

// put writes the request. An error means that nothing of it was sent. If the write broke off in the
// middle, the service may have answered before it had read all, and may have closed its side since:
// that answer is read.
func (x *exchange) put(c *h1client.Conn, head *h1client.Request, body []byte) error {
	if err := c.Send(head, body); err != nil {
		if x.delivery.NotSent(err) {
			c.Abandon()
			return err
		}
		c.Broken = true
	}
	x.conn = c
	return nil
}

// receive reads the head of the answer on x.conn.
func (x *exchange) receive(out *http.Request) error {
	if x.conn.Broken {
		_ = x.conn.SetReadDeadline(time.Now().Add(time.Second))
	}
	resp, err := x.conn.Head(out) //nolint:bodyclose // conclude does
	if err != nil {
		x.conn.Abandon()
		x.sent = true
		return err
	}
	x.resp = resp
	return nil
}
