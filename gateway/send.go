package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway/internal/once"
	"github.com/retrysafe/retrysafe/httpidem"
)

// sender is the handler inside the guard of a route.
type sender struct {
	*Gateway
	middleware *httpidem.Middleware
	keys       []string // the headers that may have the key, in canonical form
	timeout    time.Duration
	limit      int64 // of an answer that is stored, in bytes
	bodyTime   time.Duration
	layer      string
}

// ServeHTTP sends a request that has an attempt at most once, and proxies any other as usual.
func (g *sender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a, ok := retrysafe.AttemptFrom(r.Context()); ok && a.Layer() == g.layer {
		g.sendOnce(w, r, a)
		return
	}
	metricsOf(r.Context()).record(unguarded)
	r, p := paced(w, r, g.quietTime, g.bodyTime)
	defer p.finish()
	// The service may answer before it has read all. Without full duplex the gateway's server would
	// then read the rest of the body itself. A ResponseWriter that does not support it has read the
	// body already.
	duplex := r.ProtoMajor == 1 && p.body != nil && p.rc.EnableFullDuplex() == nil
	w.Header()["Content-Type"] = nil // no type is sniffed if the service sends none
	g.plain.ServeHTTP(w, r)
	if duplex {
		p.drain()
	}
}

// exchange is one guarded request to the service.
type exchange struct {
	delivery *once.Delivery
	resp     *http.Response
	// the answer's body as far as it is stored, and one byte more of a longer one; empty for an
	// event stream
	start []byte
	err   error // why there is no answer
	sent  bool  // if there is no answer: the service may have received some of the request
	cut   error // why the answer broke off

	connected atomic.Bool // from here on the request may be sent
}

// sendOnce sends a guarded request upstream at most once, and finishes its attempt if there is no
// whole answer. A request that was not sent is released. Any other request may have taken effect.
// Under Reexecute its lease is left to expire, since the service may still be working. Under Refuse
// it is in doubt, but not before MaxRun if the connection holds: the client gets an answer in time,
// and an answer that comes later is stored for duplicates.
func (g *sender) sendOnce(w http.ResponseWriter, r *http.Request, a *retrysafe.Attempt) {
	body, err := inMemory(r.Body)
	if err != nil {
		_ = a.Release(r.Context(), retrysafe.NothingDone(err))
		g.middleware.Problem(w, r, httpidem.NewProblem("body-incomplete", err))
		return
	}
	if !g.begin() {
		_ = a.Release(r.Context(), retrysafe.NothingDone(retrysafe.ErrClosed))
		g.middleware.Problem(w, r, httpidem.NewProblem("shutting-down", retrysafe.ErrClosed).WithRetryAfter(time.Second))
		return
	}
	x := new(exchange)
	ctx, cancel := context.WithCancelCause(a.Context())
	stop := context.AfterFunc(g.life, func() { cancel(retrysafe.ErrClosed) })
	free := func() {
		stop()
		cancel(nil)
		g.finish()
	}
	out := g.outgoing(r, a)
	came := make(chan struct{})
	g.running.Go(func() {
		defer close(came)
		g.exchange(ctx, x, out, a, body)
	})
	timeout := time.NewTimer(g.timeout)
	defer timeout.Stop()
	select {
	case <-came:
	case <-timeout.C:
		if finish, ok := g.detach(w, a, x); ok {
			g.running.Go(func() {
				defer free()
				<-came
				g.late(finish, r, a, x)
			})
			g.logger.Warn("no answer in time; the client was told so, and the gateway reads on", "method", r.Method,
				"path", r.URL.EscapedPath(), "attempt", a.Number(), "key_hash", a.KeyHash())
			metricsOf(r.Context()).record("late")
			g.middleware.Problem(w, r, outcomeUnknown(a, context.DeadlineExceeded, http.StatusGatewayTimeout))
			return
		}
		cancel(context.DeadlineExceeded)
		<-came
	}
	defer free()
	g.conclude(w, r, a, x)
}

// inMemory returns a body that the guard has already read into memory, without a copy if the guard
// hands out its bytes in one piece: they are those of this handler alone.
func inMemory(body io.Reader) ([]byte, error) {
	known, ok := body.(interface {
		io.WriterTo
		Len() int
	})
	if !ok {
		return io.ReadAll(body)
	}
	b, size := new(onePiece), known.Len()
	if _, err := known.WriteTo(b); err != nil || len(*b) != size {
		return nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	return *b, nil
}

// onePiece keeps what is written to it, and copies only a second piece.
type onePiece []byte

func (b *onePiece) Write(p []byte) (int, error) {
	if *b == nil {
		*b = slices.Clip(p)
	} else {
		*b = append(*b, p...)
	}
	return len(p), nil
}

// mostLate is how many answers without clients are awaited at once: a service that hangs must not
// fill the memory.
const mostLate = 1000

// detach prepares to continue without the client. It returns false if the request has not been sent
// yet, since that outcome is certain.
func (g *sender) detach(w http.ResponseWriter, a *retrysafe.Attempt, x *exchange) (func(http.Handler), bool) {
	if a.Policy().OnDoubt == retrysafe.Reexecute || !x.connected.Load() {
		return nil, false
	}
	if g.lates.Add(1) > mostLate {
		g.lates.Add(-1)
		return nil, false
	}
	finish, ok := httpidem.Detach(w)
	if !ok {
		g.lates.Add(-1)
	}
	return finish, ok
}

// late finishes an attempt with an answer that came without its client. A panic there, of a hook
// for example, has already put the attempt in doubt. It must not end the process, as a panic
// does not while a client waits.
func (g *sender) late(finish func(http.Handler), r *http.Request, a *retrysafe.Attempt, x *exchange) {
	defer g.lates.Add(-1)
	defer func() {
		if p := recover(); p != nil {
			g.logger.Error("a late answer could not be kept", "method", r.Method, "path", r.URL.EscapedPath(), "panic", fmt.Sprintf("%T", p))
		}
	}()
	finish(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.conclude(w, r, a, x) }))
}

// exchange fills x: it sends the request, and reads as much of the answer as the outcome depends
// on.
func (g *sender) exchange(ctx context.Context, x *exchange, out *http.Request, a *retrysafe.Attempt, body []byte) {
	if err := g.send(ctx, x, out, a, body); err != nil {
		x.err = errors.Join(context.Cause(ctx), err)
		return
	}
	if !once.EventStream(x.resp) && status(x.resp) {
		x.start, x.cut = io.ReadAll(io.LimitReader(x.resp.Body, g.limit+1))
		if x.cut != nil {
			x.cut = errors.Join(context.Cause(ctx), x.cut)
		}
	}
}

// send retries only if certainly nothing was sent: on a kept connection that the service had
// closed, or to another address.
func (g *sender) send(ctx context.Context, x *exchange, out *http.Request, a *retrysafe.Attempt, body []byte) (err error) {
	var tried []*upstream
	u, fresh := g.upstreams.pick(nil), 0
	for {
		x.connected.Store(false)
		x.delivery = &once.Delivery{Check: func() error {
			x.connected.Store(true)
			return sure(ctx, a)
		}}
		x.resp, err = g.transport.RoundTrip(g.to(u, x.delivery.Follow(ctx), out, body)) //nolint:bodyclose // conclude does
		if err == nil {
			return nil
		}
		if x.sent = !x.delivery.NotSent(err); x.sent || x.delivery.Stopped() != nil || ctx.Err() != nil {
			return err
		}
		reused, gone := x.delivery.Lost(err)
		if gone && !reused {
			fresh++
		}
		if reused || gone && fresh <= 2 {
			continue // the address was well a moment ago, and only this connection is gone
		}
		if x.delivery.NoConnection(err) {
			u.rest()
		} else if !gone {
			return err // refused, or an error that another address would not change
		}
		tried, fresh = append(tried, u), 0
		if u = g.upstreams.pick(tried); u == nil {
			return err
		}
	}
}

// sure makes sure, just before a request is sent, that enough of the lease is left: a process that
// was paused may have lost it.
func sure(ctx context.Context, a *retrysafe.Attempt) error {
	if a.LeaseLeft() >= a.Policy().Lease/2 {
		return nil
	}
	return a.Extend(ctx)
}

// hideHints returns a context whose 1xx answers, such as the links of 103, name no upstream.
func (b balancer) hideHints(ctx context.Context, r *http.Request) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
		b.inside.Hide(http.Header(h), r.Header.Get("X-Forwarded-Host"))
		return nil
	}})
}

// balancer sends requests that are not guarded. If no connection can be made, nothing of the body
// has been read, and it tries another address.
type balancer struct{ *Gateway }

func (b balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	body, answered := r.Body, make(chan struct{})
	var tried []*upstream
	u := b.upstreams.pick(nil)
	for {
		t := new(once.Delivery)
		try := b.direct(u, r.WithContext(b.hideHints(t.Follow(r.Context()), r)))
		if body != nil && body != http.NoBody {
			try.Body = &sentBody{body: body, left: r.ContentLength, ctx: r.Context(), answered: answered}
		}
		resp, err := b.transport.RoundTrip(try)
		if err == nil {
			if resp.StatusCode != http.StatusSwitchingProtocols { // its body is the connection
				resp.Body = &answerBody{ReadCloser: resp.Body, closed: answered}
			}
			return resp, nil
		}
		if !t.NoConnection(err) || r.Context().Err() != nil {
			close(answered)
			return nil, err
		}
		u.rest()
		tried = append(slices.Clip(tried), u)
		if u = b.upstreams.pick(tried); u == nil {
			close(answered)
			return nil, err
		}
	}
}
