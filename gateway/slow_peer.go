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

// peerWatch limits how long an unguarded exchange may go without a byte, so that slow clients and
// services that hang do not use up connections. A stream may pause, so it is not watched from the
// start of its answer.
type peerWatch struct {
	quiet  time.Duration
	cancel context.CancelFunc
	rc     *http.ResponseController

	mu     sync.Mutex
	timer  *time.Timer  // nil: it has ended, or is a stream
	over   bool         // the connection belongs to another request
	cause  error        // why it was ended; the server may have cancelled the context before
	closes bool         // the answer says that the connection ends
	body   *watchedBody // nil: there is none
}

type peerWatchKey struct{}

// startPeerWatch starts the watch over a request and its answer.
func startPeerWatch(w http.ResponseWriter, r *http.Request, quiet, bodyTime time.Duration) (*http.Request, *peerWatch) {
	ctx, end := context.WithCancel(r.Context())
	p := &peerWatch{quiet: quiet, cancel: end, rc: http.NewResponseController(w)}
	r = r.WithContext(context.WithValue(ctx, peerWatchKey{}, p))
	if r.Body != nil && r.Body != http.NoBody {
		p.body = &watchedBody{ReadCloser: r.Body, watch: p, remaining: r.ContentLength, mostPatience: bodyTime, patience: bodyTime}
		r.Body = p.body
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(quiet, p.endQuiet)
	return r, p
}

// endQuiet ends the exchange.
func (p *peerWatch) endQuiet() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		return
	}
	p.cause = errQuiet
	p.cancel()
	if p.body != nil {
		_ = p.rc.SetReadDeadline(time.Now()) // do not wait for the rest of the body
	}
}

// endSlow ends the exchange.
func (p *peerWatch) endSlow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cause = errSlow
	p.cancel()
}

// closeIfEnded returns why the exchange of r was ended, or nil if it was not. If it was, its answer
// says that the connection ends: the rest of the body would be read as the next request.
func closeIfEnded(w http.ResponseWriter, r *http.Request) error {
	p, ok := r.Context().Value(peerWatchKey{}).(*peerWatch)
	if !ok {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause != nil && r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
		p.closes = true
	}
	return p.cause
}

// noteProgress records that a byte has arrived.
func (p *peerWatch) noteProgress() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Reset(p.quiet)
	}
}

// close stops watching when the exchange ends. The service's side may still read the body for a
// moment.
func (p *peerWatch) close() {
	p.stopTimer()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.cancel()
}

// setReadDeadline sets the deadline for the client's next byte; zero: none. That of an exchange
// that was ended stays: a byte that comes at this moment would let the next read wait for ever.
func (p *peerWatch) setReadDeadline(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over && p.cause == nil {
		_ = p.rc.SetReadDeadline(t)
	}
}

// drainBody reads what is left of the client's body after the answer, or cuts the connection if
// that does not come: it would be read as the next request. With full duplex net/http's server must
// not be the one that comes to the end of the body: it would begin to watch for a client that goes
// away, and then panic when it reads the next request (Go 1.26: "invalid concurrent Body.Read
// call").
func (p *peerWatch) drainBody() {
	p.mu.Lock()
	ended, closes := p.cause != nil, p.closes
	p.mu.Unlock()
	if closes || p.rc.Flush() != nil {
		return // the server ends the connection, or it was hijacked
	}
	if ended {
		panic(http.ErrAbortHandler) // no more of the body is read
	}
	p.mu.Lock()
	p.over = true // the service's side may still read the body, and sets no deadline from here on
	_ = p.rc.SetReadDeadline(time.Now().Add(p.body.mostPatience))
	p.mu.Unlock()
	if p.body.ReadCloser.Close() != nil {
		panic(http.ErrAbortHandler)
	}
}

// stopTimer stops watching the exchange.
func (p *peerWatch) stopTimer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// watchAnswer watches the body of an answer of known length, and stops watching any other: it may
// be a stream.
func (p *peerWatch) watchAnswer(resp *http.Response) {
	if resp.ContentLength < 0 || resp.StatusCode == http.StatusSwitchingProtocols || once.EventStream(resp) {
		p.stopTimer()
		return
	}
	p.noteProgress()
	resp.Body = &watchedAnswer{resp.Body, p}
}

type watchedAnswer struct {
	io.ReadCloser
	watch *peerWatch
}

func (b *watchedAnswer) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	b.watch.noteProgress()
	return n, err
}

// watchedBody is a client's body. Only the time that a reader waits for it counts: a service that
// reads slowly is not the client's fault.
type watchedBody struct {
	io.ReadCloser
	watch        *peerWatch
	remaining    int64         // bytes to come; -1: unknown, and it may be a stream
	mostPatience time.Duration // limit of patience
	patience     time.Duration // how long reads may still wait for it
}

// Close leaves the client's body open. ReverseProxy calls it before the answer has been sent, and
// what is left of the body may take long: drainBody closes it, or the server.
func (b *watchedBody) Close() error { return nil }

func (b *watchedBody) Read(to []byte) (int, error) {
	if b.remaining < 0 {
		n, err := b.ReadCloser.Read(to)
		b.watch.noteProgress()
		return n, err
	}
	begun := time.Now()
	b.watch.setReadDeadline(begun.Add(b.patience))
	n, err := b.ReadCloser.Read(to)
	b.watch.noteProgress()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		b.watch.endSlow()
		return n, err
	}
	// over HTTP/2 an expired deadline ends the body, also while it is not read
	b.watch.setReadDeadline(time.Time{})
	b.remaining -= int64(n)
	b.patience = min(b.mostPatience, b.patience-time.Since(begun)+time.Duration(n)*time.Second/leastRate)
	return n, err
}
