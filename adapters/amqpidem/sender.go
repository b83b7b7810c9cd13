package amqpidem

import (
	"context"
	"errors"
	"sync"
	"time"
)

// sender publishes to one broker over one connection at a time. It reconnects at the next
// publication.
type sender struct {
	dialer  *dialer
	timeout time.Duration
	// checkLink checks a new link before it is used.
	checkLink func(*link) error

	lifeCtx    context.Context // until close
	stop       context.CancelFunc
	connecting chan struct{} // holds a value while a goroutine connects
	mu         sync.Mutex
	active     *publisherConn
	closed     bool
}

func newSender(d *dialer, timeout time.Duration, ready func(*link) error) *sender {
	s := &sender{dialer: d, timeout: timeout, checkLink: ready, connecting: make(chan struct{}, 1)}
	s.lifeCtx, s.stop = context.WithCancel(context.Background())
	return s
}

// getConn returns a connection that had not ended when it was checked.
func (s *sender) getConn(ctx context.Context) (*publisherConn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, errors.New("the publishing timeout has passed"))
	defer cancel()
	defer context.AfterFunc(s.lifeCtx, cancel)()
	if o, err := s.currentConn(); o != nil || err != nil {
		return o, err
	}
	select {
	case s.connecting <- struct{}{}:
		defer func() { <-s.connecting }()
	case <-ctx.Done():
		return nil, cannotConnect(ctx, nil)
	}
	if o, err := s.currentConn(); o != nil || err != nil {
		return o, err
	}
	l, err := s.dialer.dial(ctx)
	if err != nil {
		return nil, err
	}
	if s.checkLink != nil {
		if err := s.checkLink(l); err != nil {
			l.close()
			return nil, err
		}
	}
	o, err := newPublisherConn(l, s.timeout)
	if err != nil {
		l.close()
		return nil, cannotConnect(ctx, err)
	}
	s.mu.Lock()
	old, closed := s.active, s.closed
	if !closed {
		s.active = o
	}
	s.mu.Unlock()
	if closed {
		o.closeAndWait()
		return nil, errClosed
	}
	if old != nil {
		old.closeAndWait()
	}
	return o, nil
}

func (s *sender) currentConn() (*publisherConn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.active != nil && s.active.hasEnded() {
		return nil, nil
	}
	return s.active, nil
}

// publish returns when the broker has confirmed the message, or an error with its outcome.
func (s *sender) publish(ctx context.Context, p *publishing) error {
	if err := ctx.Err(); err != nil {
		return newPublishError(outcomeUnsent, err, "the message was not published")
	}
	o, err := s.getConn(ctx)
	if err != nil {
		return err
	}
	if err := o.enqueue(ctx, p); err != nil {
		return err
	}
	late := time.NewTimer(s.timeout)
	defer late.Stop()
	if err := o.awaitConfirm(ctx, p, late.C); err != nil {
		return err
	}
	return nil
}

// close ends the connection. Publications in flight get an unknown outcome.
func (s *sender) close() {
	s.stop()
	s.mu.Lock()
	o := s.active
	s.active, s.closed = nil, true
	s.mu.Unlock()
	if o != nil {
		o.closeAndWait()
	}
}
