package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/gateway/internal/once"
)

// leastRate is how many bytes of a body of known length must arrive in a second once the time for a
// body has been used up.
const leastRate = 1 << 10

var (
	errQuiet = errors.New("nothing moved for too long")
	errSlow  = errors.New("the request came too slowly")
)

// pace limits how long an unguarded exchange may go without a byte, so that slow clients and
// services that hang do not use up connections. A stream may pause, so it is not watched from the
// start of its answer.
type pace struct {
	quiet time.Duration
	end   context.CancelFunc
	rc    *http.ResponseController

	mu    sync.Mutex
	timer *time.Timer // nil: it has ended, or is a stream
	over  bool        // the connection belongs to another request
	why   error       // why it was ended; the server may have cancelled the context before
	body  *pacedBody  // nil: there is none
}

type paceKey struct{}

// paced starts the pace of a request.
func paced(w http.ResponseWriter, r *http.Request, quiet, bodyTime time.Duration) (*http.Request, *pace) {
	ctx, end := context.WithCancel(r.Context())
	p := &pace{quiet: quiet, end: end, rc: http.NewResponseController(w)}
	r = r.WithContext(context.WithValue(ctx, paceKey{}, p))
	if r.Body != nil && r.Body != http.NoBody {
		p.body = &pacedBody{ReadCloser: r.Body, pace: p, left: r.ContentLength, most: bodyTime, patience: bodyTime}
		r.Body = p.body
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(quiet, p.stalled)
	return r, p
}

// stalled ends the exchange.
func (p *pace) stalled() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		return
	}
	p.why = errQuiet
	p.end()
	if p.body != nil {
		_ = p.rc.SetReadDeadline(time.Now()) // do not wait for the rest of the body
	}
}

// tooSlow ends the exchange.
func (p *pace) tooSlow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.why = errSlow
	p.end()
}

// whyEnded returns why the exchange of r was ended, or nil if it was not.
func whyEnded(r *http.Request) error {
	p, ok := r.Context().Value(paceKey{}).(*pace)
	if !ok {
		return nil
	}
	return p.whyEnded()
}

func (p *pace) whyEnded() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why
}

// moved records that a byte has arrived.
func (p *pace) moved() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Reset(p.quiet)
	}
}

// finish stops watching when the exchange ends. The service's side may still read the body for a
// moment.
func (p *pace) finish() {
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.end()
}

// readBy sets the deadline for the client's next byte; zero: none.
func (p *pace) readBy(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		_ = p.rc.SetReadDeadline(t)
	}
}

// drain reads what is left of the client's body after the answer, or cuts the connection if that
// does not come: it would be read as the next request. With full duplex net/http's server must not
// be the one that comes to the end of the body: it would begin to watch for a client that goes
// away, and then panic when it reads the next request (Go 1.26: "invalid concurrent Body.Read
// call").
func (p *pace) drain() {
	if p.whyEnded() != nil || p.rc.Flush() != nil {
		return // plainFailed ends the connection, or it was hijacked
	}
	p.mu.Lock()
	p.over = true // the service's side may still read the body, and sets no deadline from here on
	_ = p.rc.SetReadDeadline(time.Now().Add(p.body.most))
	p.mu.Unlock()
	if p.body.ReadCloser.Close() != nil {
		panic(http.ErrAbortHandler)
	}
}

// stop stops watching the exchange.
func (p *pace) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// answered watches the body of an answer of known length, and stops watching any other: it may be a
// stream.
func (p *pace) answered(resp *http.Response) {
	if resp.ContentLength < 0 || resp.StatusCode == http.StatusSwitchingProtocols || once.EventStream(resp) {
		p.stop()
		return
	}
	p.moved()
	resp.Body = &pacedAnswer{resp.Body, p}
}

type pacedAnswer struct {
	io.ReadCloser
	pace *pace
}

func (b *pacedAnswer) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	b.pace.moved()
	return n, err
}

// pacedBody is a client's body. Only the time that a reader waits for it counts: a service that
// reads slowly is not the client's fault.
type pacedBody struct {
	io.ReadCloser
	pace     *pace
	left     int64         // bytes to come; -1: unknown, and it may be a stream
	most     time.Duration // limit of patience
	patience time.Duration // how long reads may still wait for it
}

// Close leaves the client's body open. ReverseProxy calls it before the answer has been sent, and
// what is left of the body may take long: drain closes it, or the server.
func (b *pacedBody) Close() error { return nil }

func (b *pacedBody) Read(to []byte) (int, error) {
	if b.left < 0 {
		n, err := b.ReadCloser.Read(to)
		b.pace.moved()
		return n, err
	}
	begun := time.Now()
	b.pace.readBy(begun.Add(b.patience))
	n, err := b.ReadCloser.Read(to)
	b.pace.moved()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		b.pace.tooSlow()
		return n, err
	}
	// over HTTP/2 an expired deadline ends the body, also while it is not read
	b.pace.readBy(time.Time{})
	b.left -= int64(n)
	b.patience = min(b.most, b.patience-time.Since(begun)+time.Duration(n)*time.Second/leastRate)
	return n, err
}
