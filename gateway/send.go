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
	"github.com/retrysafe/retrysafe/gateway/internal/inside"
	"github.com/retrysafe/retrysafe/gateway/internal/once"
	"github.com/retrysafe/retrysafe/httpidem"
)

// sender is the handler inside the guard of a route.
type sender struct {
	*Gateway
	middleware *httpidem.Middleware
	keys       []string // the headers that may have the key, in canonical form
	timeout    time.Duration
	mostStored int64 // of an answer that is stored, in bytes
	bodyTime   time.Duration
	layer      string
}

// ServeHTTP sends a request that has an attempt at most once, and proxies any other as usual.
func (g *sender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a, ok := retrysafe.AttemptFrom(r.Context()); ok && a.Layer() == g.layer {
		g.sendOnce(w, r, a)
		return
	}
	metricsOf(r.Context()).recordOutcome(unguarded)
	r, p := startPeerWatch(w, r, g.quietTime, g.bodyTime)
	defer p.close()
	// The service may answer before it has read all. Without full duplex the gateway's server would
	// then read the rest of the body itself. A ResponseWriter that does not support it has read the
	// body already.
	duplex := r.ProtoMajor == 1 && p.body != nil && p.rc.EnableFullDuplex() == nil
	w.Header()["Content-Type"] = nil // no type is sniffed if the service sends none
	g.unguardedProxy.ServeHTTP(w, r)
	if duplex {
		p.drainBody()
	}
}

// exchange is one guarded request to the service.
type exchange struct {
	delivery *once.Delivery
	resp     *http.Response
	// the answer's body as far as it is stored, and one byte more of a longer one; empty for an
	// event stream
	answerStart []byte
	err         error // why there is no answer
	sent        bool  // if there is no answer: the service may have received some of the request
	cutCause    error // why the answer broke off

	connected atomic.Bool // from here on the request may be sent
}

// sendOnce sends a guarded request upstream at most once, and finishes its attempt if there is no
// whole answer. A request that was not sent is released. Any other request may have taken effect.
// Under Reexecute its lease is left to expire, since the service may still be working. Under Refuse
// it is in doubt, but not before MaxRun if the connection holds: the client gets an answer in time,
// and an answer that comes later is stored for duplicates.
func (g *sender) sendOnce(w http.ResponseWriter, r *http.Request, a *retrysafe.Attempt) {
	// Again, since the store may have gone back while this request waited for another one with its
	// key, or in a state in which its key was known.
	if err := g.history.requireHistory(r.Context()); err != nil {
		_ = a.Release(r.Context(), retrysafe.NothingDone(err))
		g.middleware.Problem(w, r, historyProblem(err))
		return
	}
	body, err := bodyBytes(r.Body)
	if err != nil {
		_ = a.Release(r.Context(), retrysafe.NothingDone(err))
		g.middleware.Problem(w, r, httpidem.NewProblem("body-incomplete", err))
		return
	}
	if !g.beginRequest() {
		_ = a.Release(r.Context(), retrysafe.NothingDone(retrysafe.ErrClosed))
		g.middleware.Problem(w, r, httpidem.NewProblem("shutting-down", retrysafe.ErrClosed).WithRetryAfter(time.Second))
		return
	}
	x := new(exchange)
	ctx, cancel := context.WithCancelCause(a.Context())
	stop := context.AfterFunc(g.ctx, func() { cancel(retrysafe.ErrClosed) })
	free := func() {
		stop()
		cancel(nil)
		g.endRequest()
	}
	out := g.outgoingRequest(r, a)
	came := make(chan struct{})
	g.running.Go(func() {
		defer close(came)
		g.runExchange(ctx, x, out, a, body)
	})
	timeout := time.NewTimer(g.timeout)
	defer timeout.Stop()
	select {
	case <-came:
	case <-timeout.C:
		if finish, ok := g.detachClient(w, a, x); ok {
			g.running.Go(func() {
				defer free()
				<-came
				g.finishLate(finish, r, a, x)
			})
			g.logger.Warn("no answer in time; the client gets 504, and the gateway reads on", "method", r.Method,
				"path", r.URL.EscapedPath(), "attempt", a.Number(), "key_hash", a.KeyHash())
			metricsOf(r.Context()).recordOutcome("late")
			g.middleware.Problem(w, r, outcomeUnknownProblem(a, context.DeadlineExceeded, http.StatusGatewayTimeout))
			return
		}
		cancel(context.DeadlineExceeded)
		<-came
	}
	defer free()
	g.finishExchange(w, r, a, x)
}

// bodyBytes returns a body that the guard has already read into memory, without a copy if the guard
// hands out its bytes in one piece: they are those of this handler alone.
func bodyBytes(body io.Reader) ([]byte, error) {
	known, ok := body.(interface {
		io.WriterTo
		Len() int
	})
	if !ok {
		return io.ReadAll(body)
	}
	b, size := new(onePieceBuffer), known.Len()
	if _, err := known.WriteTo(b); err != nil || len(*b) != size {
		return nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	return *b, nil
}

// onePieceBuffer keeps what is written to it, and copies only a second piece.
type onePieceBuffer []byte

func (b *onePieceBuffer) Write(p []byte) (int, error) {
	if *b == nil {
		*b = slices.Clip(p)
	} else {
		*b = append(*b, p...)
	}
	return len(p), nil
}

// mostLateAnswers is how many answers without clients are awaited at once: a service that hangs
// must not fill the memory.
const mostLateAnswers = 1000

// detachClient prepares to continue without the client. It returns false if the request has not
// been sent yet, since that outcome is certain.
func (g *sender) detachClient(w http.ResponseWriter, a *retrysafe.Attempt, x *exchange) (func(http.Handler), bool) {
	if a.Policy().OnDoubt == retrysafe.Reexecute || !x.connected.Load() {
		return nil, false
	}
	if g.lateAnswers.Add(1) > mostLateAnswers {
		g.lateAnswers.Add(-1)
		return nil, false
	}
	finish, ok := httpidem.Detach(w)
	if !ok {
		g.lateAnswers.Add(-1)
	}
	return finish, ok
}

// finishLate finishes an attempt with an answer that came without its client. A panic there, of a
// hook for example, has already put the attempt in doubt. It must not end the process, as a panic
// does not while a client waits.
func (g *sender) finishLate(finish func(http.Handler), r *http.Request, a *retrysafe.Attempt, x *exchange) {
	defer g.lateAnswers.Add(-1)
	defer func() {
		if p := recover(); p != nil {
			g.logger.Error("a late answer could not be kept", "method", r.Method, "path", r.URL.EscapedPath(), "panic", fmt.Sprintf("%T", p))
		}
	}()
	finish(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.finishExchange(w, r, a, x) }))
}

// runExchange fills x: it sends the request, and reads as much of the answer as the outcome depends
// on.
func (g *sender) runExchange(ctx context.Context, x *exchange, out *http.Request, a *retrysafe.Attempt, body []byte) {
	if err := g.sendWithRetry(ctx, x, out, a, body); err != nil {
		x.err = errors.Join(context.Cause(ctx), err)
		return
	}
	if !once.EventStream(x.resp) && hasValidStatus(x.resp) {
		x.answerStart, x.cutCause = io.ReadAll(io.LimitReader(x.resp.Body, g.mostStored+1))
		if x.cutCause != nil {
			x.cutCause = errors.Join(context.Cause(ctx), x.cutCause)
		}
	}
}

// sendWithRetry retries only if certainly nothing was sent: on a kept connection that the service
// had closed, or to another address.
func (g *sender) sendWithRetry(ctx context.Context, x *exchange, out *http.Request, a *retrysafe.Attempt, body []byte) (err error) {
	var tried []*upstream
	u, fresh := g.upstreams.pick(nil), 0
	for {
		x.connected.Store(false)
		x.delivery = &once.Delivery{Check: func() error {
			x.connected.Store(true)
			return ensureLease(ctx, a)
		}}
		x.resp, err = g.transport.Send(g.requestTo(u, ctx, out, body), x.delivery) //nolint:bodyclose // finishExchange does
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
		if once.Unreachable(err) {
			u.pause()
		} else if !gone {
			return err // refused, or an error that another address would not change
		}
		tried, fresh = append(tried, u), 0
		if u = g.upstreams.pick(tried); u == nil {
			return err
		}
	}
}

// ensureLease makes sure, just before a request is sent, that enough of the lease is left: a
// process that was paused may have lost it.
func ensureLease(ctx context.Context, a *retrysafe.Attempt) error {
	if a.LeaseLeft() >= a.Policy().Lease/2 {
		return nil
	}
	return a.Extend(ctx)
}

// clientOf returns what a request that the gateway sends says about the client.
func clientOf(r *http.Request) inside.Client {
	return inside.Client{Scheme: r.Header.Get("X-Forwarded-Proto"), Host: r.Header.Get("X-Forwarded-Host")}
}

// hideHints returns a context whose 1xx answers, such as the links of 103, name no upstream.
func (b balancer) hideHints(ctx context.Context, r *http.Request) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
		b.inside.Hide(http.Header(h), clientOf(r))
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
		try := b.directTo(u, r.WithContext(b.hideHints(r.Context(), r)))
		if body != nil && body != http.NoBody {
			try.Body = &sentBody{body: body, remaining: r.ContentLength, ctx: r.Context(), answered: answered}
		}
		resp, err := b.transport.RoundTrip(try)
		if err == nil {
			if resp.StatusCode != http.StatusSwitchingProtocols { // its body is the connection
				resp.Body = &answerBody{ReadCloser: resp.Body, closed: answered}
			}
			return resp, nil
		}
		if !once.Unreachable(err) || r.Context().Err() != nil {
			close(answered)
			return nil, err
		}
		u.pause()
		tried = append(slices.Clip(tried), u)
		if u = b.upstreams.pick(tried); u == nil {
			close(answered)
			return nil, err
		}
	}
}
