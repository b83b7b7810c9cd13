package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
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
	visitOf(r.Context()).comes(unguarded)
	g.plain.ServeHTTP(w, r)
}

// exchange is one guarded request to the service.
type exchange struct {
	trip  *trip
	resp  *http.Response
	first []byte // the answer's body as far as it is kept, and one byte more of a longer one; nothing of a stream of events
	err   error  // there is no answer
	cut   error  // the answer broke off
}

// sendOnce sends a guarded request upstream at most once, and settles its attempt where there is no whole answer. What was not sent
// is released. Everything else may have happened: under Reexecute the lease is left to lapse, for the service may still be working;
// under Refuse it is in doubt, but not before MaxRun if the connection holds: the client is told in time, and an answer that comes
// later is kept for its repeats.
func (g *sender) sendOnce(w http.ResponseWriter, r *http.Request, a *retrysafe.Attempt) {
	body, err := io.ReadAll(r.Body) // in memory already
	if err != nil {
		_ = a.Release(r.Context(), err)
		g.middleware.Problem(w, r, httpidem.NewProblem("body-incomplete", err))
		return
	}
	ctx, cancel := context.WithCancelCause(a.Context())
	stop := context.AfterFunc(g.life, func() { cancel(retrysafe.ErrClosed) })
	g.busy.Add(1)
	g.monitor.attempt(+1)
	free := func() {
		stop()
		cancel(nil)
		g.busy.Add(-1)
		g.monitor.attempt(-1)
	}
	x, came := new(exchange), make(chan struct{})
	out := g.outgoing(ctx, r, a)
	g.running.Go(func() {
		defer close(came)
		g.exchange(ctx, x, out, a, body)
	})
	late := time.NewTimer(g.timeout)
	defer late.Stop()
	select {
	case <-came:
	case <-late.C:
		finish, ok := g.detach(w, a)
		if ok {
			g.logger.Warn("no answer in time; the client was told so, and the gateway reads on", "method", r.Method,
				"path", r.URL.EscapedPath(), "attempt", a.N())
			visitOf(r.Context()).comes("late")
			g.middleware.Problem(w, r, httpidem.NewProblem("outcome-unknown", context.DeadlineExceeded).WithStatus(http.StatusGatewayTimeout))
			g.running.Go(func() {
				defer free()
				<-came
				finish(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.conclude(w, r, a, x) }))
			})
			return
		}
		cancel(context.DeadlineExceeded)
		<-came
	}
	defer free()
	g.conclude(w, r, a, x)
}

// detach makes ready to read on without the client.
func (g *sender) detach(w http.ResponseWriter, a *retrysafe.Attempt) (func(http.Handler), bool) {
	if a.Policy().OnDoubt == retrysafe.Reexecute {
		return nil, false
	}
	return httpidem.Detach(w)
}

// exchange fills x: it sends, and reads as much of the answer as decides what is told.
func (g *sender) exchange(ctx context.Context, x *exchange, out *http.Request, a *retrysafe.Attempt, body []byte) {
	x.resp, x.trip, x.err = g.send(ctx, out, a, body) //nolint:bodyclose // conclude does
	if x.err != nil {
		x.err = errors.Join(context.Cause(ctx), x.err)
		return
	}
	if !events(x.resp) && x.resp.StatusCode >= http.StatusOK {
		x.first, x.cut = io.ReadAll(io.LimitReader(x.resp.Body, g.limit+1))
	}
}

// send tries again only where certainly nothing was sent: on a kept connection that the service had closed, or to another address.
func (g *sender) send(ctx context.Context, out *http.Request, a *retrysafe.Attempt, body []byte) (*http.Response, *trip, error) {
	var tried []*upstream
	u := g.upstreams.pick(nil)
	for again := 0; ; again++ {
		t := &trip{check: func() error { return sure(ctx, a) }}
		resp, err := g.wire.RoundTrip(to(u, t.follow(ctx), out, body))
		if err == nil {
			return resp, t, nil
		}
		if !t.notSent(err) || t.stopped != nil || ctx.Err() != nil {
			return nil, t, err
		}
		if t.conn != nil && !refused(err) && (t.reused || goneAway(err)) && again < 1000 {
			continue // it was well a moment ago, and each of these connections is gone now
		}
		if t.conn == nil {
			u.rest()
		}
		tried = append(tried, u)
		if u = g.upstreams.pick(tried); u == nil {
			return nil, t, err
		}
	}
}

// sure makes sure, just before a request is sent, that there is time for it: a process that was held up may have lost its lease.
func sure(ctx context.Context, a *retrysafe.Attempt) error {
	if a.LeaseLeft() >= a.Policy().Lease/2 {
		return nil
	}
	return a.Extend(ctx)
}

// balancer sends requests that are not guarded. Where no connection can be made, nothing of the body was read, and another
// address is tried.
type balancer struct{ *Gateway }

func (b balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	body := r.Body
	if body != nil && body != http.NoBody {
		defer body.Close()
	}
	var tried []*upstream
	u := b.upstreams.pick(nil)
	for {
		t := new(trip)
		try := r.WithContext(t.follow(r.Context()))
		address := *r.URL
		try.URL = &address
		u.address(try)
		if body != nil && body != http.NoBody {
			try.Body = io.NopCloser(body)
		}
		resp, err := b.wire.RoundTrip(try)
		if err == nil || t.conn != nil || r.Context().Err() != nil {
			return resp, err
		}
		u.rest()
		tried = append(slices.Clip(tried), u)
		if u = b.upstreams.pick(tried); u == nil {
			return nil, err
		}
	}
}
