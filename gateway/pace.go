package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// leastRate is how many bytes of a body whose length is known have to come in a second, once the
// time for a body is used up.
const leastRate = 1 << 10

var (
	errQuiet = errors.New("nothing moved for too long")
	errSlow  = errors.New("the request came too slowly")
)

// pace bounds how long an unguarded exchange may go without a byte, so that slow clients and
// services that hang do not use up connections. Streams, which may rest, are left alone from their
// first answer on.
type pace struct {
	quiet time.Duration
	end   context.CancelFunc
	rc    *http.ResponseController

	mu    sync.Mutex
	timer *time.Timer // nil: it is over, or a stream
	over  bool        // the connection is not this request's any more
	why   error       // it was ended; the server may have cancelled the context before
	body  *pacedBody  // nil: there is none
}

type paceKey struct{}

// paced begins the pace of a request.
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
		_ = p.rc.SetReadDeadline(time.Now()) // what is still to come of it is not waited for
	}
}

// tooSlow ends the exchange.
func (p *pace) tooSlow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.why = errSlow
	p.end()
}

// whyEnded is why the exchange of r was ended; nil: it was not.
func whyEnded(r *http.Request) error {
	p, ok := r.Context().Value(paceKey{}).(*pace)
	if !ok {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why
}

// moved says that there was a byte.
func (p *pace) moved() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Reset(p.quiet)
	}
}

// finish ends the watch with the exchange. The service's side may still read the body for a moment.
func (p *pace) finish() {
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.end()
}

// readBy sets the time until which the client's next byte is waited for; zero: for ever.
func (p *pace) readBy(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		_ = p.rc.SetReadDeadline(t)
	}
}

// stop leaves the exchange alone.
func (p *pace) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// answered watches the body of an answer whose length is known, and leaves every other one alone:
// it may be a stream.
func (p *pace) answered(resp *http.Response) {
	if resp.ContentLength < 0 || resp.StatusCode == http.StatusSwitchingProtocols || events(resp) {
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

// pacedBody is a client's body. Only the time that somebody waits for it counts: a service that
// reads slowly is not the client's fault.
type pacedBody struct {
	io.ReadCloser
	pace     *pace
	left     int64         // bytes to come; -1: nobody knows, and it may be a stream
	most     time.Duration // of patience
	patience time.Duration // how long it may still be waited for
}

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
	b.pace.readBy(time.Time{}) // over HTTP/2 one that passes ends the body, also while nobody reads
	b.left -= int64(n)
	b.patience = min(b.most, b.patience-time.Since(begun)+time.Duration(n)*time.Second/leastRate)
	return n, err
}
