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
	d       *dialer
	timeout time.Duration
	// ready checks a new link before it is used.
	ready func(*link) error

	life   context.Context // until close
	stop   context.CancelFunc
	turn   chan struct{} // holds a value while a goroutine connects
	mu     sync.Mutex
	now    *publisherConn
	closed bool
}

func newSender(d *dialer, timeout time.Duration, ready func(*link) error) *sender {
	s := &sender{d: d, timeout: timeout, ready: ready, turn: make(chan struct{}, 1)}
	s.life, s.stop = context.WithCancel(context.Background())
	return s
}

// conn returns a connection that had not ended when it was checked.
func (s *sender) conn(ctx context.Context) (*publisherConn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, errors.New("the publishing timeout has passed"))
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	if o, err := s.current(); o != nil || err != nil {
		return o, err
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, cannotConnect(ctx, nil)
	}
	if o, err := s.current(); o != nil || err != nil {
		return o, err
	}
	l, err := s.d.dial(ctx)
	if err != nil {
		return nil, err
	}
	if s.ready != nil {
		if err := s.ready(l); err != nil {
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
	old, closed := s.now, s.closed
	if !closed {
		s.now = o
	}
	s.mu.Unlock()
	if closed {
		o.end()
		return nil, errClosed
	}
	if old != nil {
		old.end()
	}
	return o, nil
}

func (s *sender) current() (*publisherConn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.now != nil && s.now.ended() {
		return nil, nil
	}
	return s.now, nil
}

// publish returns when the broker has confirmed the message, or an error with its outcome.
func (s *sender) publish(ctx context.Context, p *publishing) error {
	if err := ctx.Err(); err != nil {
		return failed(unsent, err, "the message was not published")
	}
	o, err := s.conn(ctx)
	if err != nil {
		return err
	}
	if err := o.enqueue(ctx, p); err != nil {
		return err
	}
	late := time.NewTimer(s.timeout)
	defer late.Stop()
	if err := o.await(ctx, p, late.C); err != nil {
		return err
	}
	return nil
}

// close ends the connection. Publications in flight get an unknown outcome.
func (s *sender) close() {
	s.stop()
	s.mu.Lock()
	o := s.now
	s.now, s.closed = nil, true
	s.mu.Unlock()
	if o != nil {
		o.end()
	}
}
