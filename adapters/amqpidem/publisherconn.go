package amqpidem

import (
	"context"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe/mqidem"
)

// publisherConn is a link that publishes. One goroutine writes, so that a caller can stop waiting
// for a broker that does not read. Another one receives what the broker returns.
type publisherConn struct {
	*link
	timeout      time.Duration
	queue        chan *publishing
	blocks       chan amqp.Blocking
	returns      chan amqp.Return
	flushReturns chan chan struct{} // closed by returnLoop when it has marked all earlier returns
	returnsEnded chan struct{}      // closed when returnLoop has ended and has marked all returns
	work         sync.WaitGroup

	mu            sync.Mutex
	inflight      map[string]*publishing
	brokerBlocked bool // the broker said that it accepts nothing
	ending        bool // no more work begins
}

// publishing is one message that is being published.
type publishing struct {
	exchange, key string
	amqp.Publishing

	sent       chan struct{} // closed when it was written, or could not be
	confirm    *amqp.DeferredConfirmation
	err        error         // of the writing
	released   chan struct{} // closed when its name is free again
	returnText string        // why it was returned; the publisherConn's mutex guards it
}

func newPublishing(exchange, key string, p amqp.Publishing) *publishing {
	return &publishing{exchange: exchange, key: key, Publishing: p, sent: make(chan struct{}), released: make(chan struct{})}
}

// inFlightName identifies a returned message. Only one message of a name is in flight, since the
// broker does not say which one it returns.
func (p *publishing) inFlightName() string {
	return inFlightName(p.exchange, p.key, p.MessageId, p.Headers)
}

func inFlightName(exchange, key, id string, headers amqp.Table) string {
	return exchange + "\x00" + key + "\x00" + id + "\x00" + string(headerText(headers[mqidem.HeaderID]))
}

func newPublisherConn(l *link, timeout time.Duration) (*publisherConn, error) {
	o := &publisherConn{
		link: l, timeout: timeout, queue: make(chan *publishing), flushReturns: make(chan chan struct{}), returnsEnded: make(chan struct{}),
		// The client drops a return that it cannot deliver within five seconds. No return must be
		// lost.
		returns: make(chan amqp.Return, 1024), blocks: make(chan amqp.Blocking, 64),
		inflight: map[string]*publishing{},
	}
	l.channel.NotifyReturn(o.returns)
	l.conn.NotifyBlocked(o.blocks)
	if err := l.limitTime(timeout, func() error { return l.channel.Confirm(false) }); err != nil {
		return nil, err
	}
	o.work.Go(o.writeLoop)
	o.work.Go(o.returnLoop)
	return o, nil
}

// writeLoop writes while the broker accepts messages.
func (o *publisherConn) writeLoop() {
	defer o.sever() // after an error the broker closes the channel and leaves the connection open
	for {
		queue := o.queue
		if o.isBlocked() {
			queue = nil
		}
		select {
		case p := <-queue:
			p.err = o.limitTime(o.timeout, func() (err error) {
				p.confirm, err = o.channel.PublishWithDeferredConfirm(p.exchange, p.key, true, false, p.Publishing)
				return err
			})
			close(p.sent)
		case b, ok := <-o.blocks:
			if !ok {
				<-o.done
				return
			}
			o.mu.Lock()
			o.brokerBlocked = b.Active
			o.mu.Unlock()
		case <-o.done:
			return
		}
	}
}

func (o *publisherConn) isBlocked() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.brokerBlocked
}

// returnLoop marks the messages that the broker returns.
func (o *publisherConn) returnLoop() {
	defer close(o.returnsEnded)
	for {
		select {
		case r, ok := <-o.returns:
			if !ok {
				return
			}
			o.markReturned(&r)
		case done := <-o.flushReturns:
			for more := true; more; {
				select {
				case r, ok := <-o.returns:
					if !ok {
						close(done)
						return
					}
					o.markReturned(&r)
				default:
					more = false
				}
			}
			close(done)
		}
	}
}

func (o *publisherConn) markReturned(r *amqp.Return) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := o.inflight[inFlightName(r.Exchange, r.RoutingKey, r.MessageId, r.Headers)]; p != nil {
		p.returnText = r.ReplyText
	}
}

// enqueue gives p to the writer. An error means that p was not published.
func (o *publisherConn) enqueue(ctx context.Context, p *publishing) *publishError {
	if err := checkSizes(p, o.conn.Config.FrameSize); err != nil {
		return err
	}
	late := time.NewTimer(o.timeout)
	defer late.Stop()
	for first := o.reserve(p); first != nil; first = o.reserve(p) {
		select {
		case <-first.released:
		case <-o.done:
			return newPublishError(outcomeUnsent, o.endReason(), "the connection ended; the message was not published")
		case <-late.C:
			return o.notTakenError("an earlier publication of the same message is not confirmed after %v; it was not published again: do it later")
		case <-ctx.Done():
			return newPublishError(outcomeUnsent, context.Cause(ctx), "the message was not published")
		}
	}
	select {
	case o.queue <- p:
		return nil
	case <-o.done:
		o.release(p)
		return newPublishError(outcomeUnsent, o.endReason(), "the connection ended; the message was not published")
	case <-late.C:
		o.release(p)
		return o.notTakenError("RabbitMQ has read nothing for %v; the message was not published: do it later")
	case <-ctx.Done():
		o.release(p)
		return newPublishError(outcomeUnsent, context.Cause(ctx), "the message was not published")
	}
}

// notTakenError is the error of a wait that was too long. If there is an alarm, the error says so.
func (o *publisherConn) notTakenError(text string) *publishError {
	if o.isBlocked() {
		text = "RabbitMQ has taken no messages for %v, since its disk or memory is short (connection.blocked); the message was not published: give it some, and do it later"
	}
	return newPublishError(outcomeUnsent, nil, text, o.timeout)
}

// reserve takes p's name. If another message has it, reserve returns that one.
func (o *publisherConn) reserve(p *publishing) *publishing {
	o.mu.Lock()
	defer o.mu.Unlock()
	name := p.inFlightName()
	if other := o.inflight[name]; other != nil {
		return other
	}
	o.inflight[name] = p
	return nil
}

func (o *publisherConn) release(p *publishing) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.inflight, p.inFlightName())
	close(p.released)
}

// awaitConfirm waits for the confirmation of a message that enqueue has accepted, until late fires.
func (o *publisherConn) awaitConfirm(ctx context.Context, p *publishing, late <-chan time.Time) *publishError {
	if err := o.waitFor(ctx, p, p.sent, late); err != nil {
		return err
	}
	if p.err != nil {
		defer o.release(p)
		o.sever()
		<-o.done
		return lostChannelError(o.endReason(), len(p.Body))
	}
	if err := o.waitFor(ctx, p, p.confirm.Done(), late); err != nil {
		return err
	}
	return o.outcome(p)
}

// waitFor waits for an event of p. If the event and the end of the wait coincide, the event counts.
func (o *publisherConn) waitFor(ctx context.Context, p *publishing, happens <-chan struct{}, late <-chan time.Time) *publishError {
	select {
	case <-happens:
		return nil
	default:
	}
	select {
	case <-happens:
		return nil
	case <-late:
		return o.abandon(p, nil)
	case <-ctx.Done():
		return o.abandon(p, context.Cause(ctx))
	}
}

// outcome returns the outcome of a message after its confirmation or the end of its channel.
func (o *publisherConn) outcome(p *publishing) *publishError {
	defer o.release(p)
	if !p.confirm.Acked() {
		if !o.channel.IsClosed() {
			return newPublishError(outcomeNacked, nil, "RabbitMQ could not keep the message; look at its log, and at the limits of the queue: publish it again later")
		}
		<-o.done // a channel that ends reports its messages in flight as refused
		return lostChannelError(o.endReason(), len(p.Body))
	}
	done := make(chan struct{})
	select {
	case o.flushReturns <- done:
		<-done
	case <-o.returnsEnded:
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.returnText != "" {
		return newPublishError(outcomeReturned, nil, "no queue takes a message for the routing key %q on %s (%s); it was not kept: declare the queue, or its binding", p.key, describeExchange(p.exchange), p.returnText)
	}
	return nil
}

func describeExchange(name string) string {
	if name == "" {
		return "the default exchange"
	}
	return "the exchange " + name
}

// abandon stops waiting for p. Its name is free again when the broker has answered.
func (o *publisherConn) abandon(p *publishing, cause error) *publishError {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ending {
		return newPublishError(outcomeUnknown, cause, unconfirmedText)
	}
	o.work.Go(func() {
		defer o.release(p)
		select {
		case <-p.sent:
		case <-o.done:
			return
		}
		if p.err == nil {
			select {
			case <-p.confirm.Done():
			case <-o.done:
			}
		}
	})
	return newPublishError(outcomeUnknown, cause, unconfirmedText)
}

const unconfirmedText = "RabbitMQ has not confirmed the message yet; its outcome is unknown: publish it again with the same id"

// closeAndWait closes the link and waits for everything that uses it.
func (o *publisherConn) closeAndWait() {
	o.mu.Lock()
	o.ending = true
	o.mu.Unlock()
	o.close()
	o.work.Wait()
}
