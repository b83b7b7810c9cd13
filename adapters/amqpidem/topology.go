package amqpidem

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Declare makes what a queue needs, if it is missing: the work queue, a delay queue for each of
// Options.Delays ("queue.delay.1000", in milliseconds), the dead-letter queue ("queue.dead"), and
// Options.Exchange with its bindings. With Options.Passive it only checks that the queues exist. If
// something exists with other arguments, Declare returns an error and changes nothing. [Open] does
// the same, so Declare is for programs that only publish.
func Declare(ctx context.Context, url, queue string, o *Options) error {
	s, err := newSettings(queue, o)
	if err != nil {
		return err
	}
	d, err := newDialer(url, s.Dialing)
	if err != nil {
		return err
	}
	l, err := d.dial(ctx)
	if err != nil {
		return err
	}
	defer l.close()
	return s.declare(ctx, l)
}

// queueSpec is a queue to declare.
type queueSpec struct {
	name string
	args amqp.Table
}

// queues returns the work queue, the dead-letter queue and the delay queues.
func (s *settings) queues() []queueSpec {
	work, deadLetters := amqp.Table{}, amqp.Table{amqp.QueueTypeArg: s.queueType()}
	toDeadLetters := s.setDeadLetterTarget(work, s.deadLetterQueue())
	if s.TTL > 0 {
		work[amqp.QueueMessageTTLArg] = s.TTL.Milliseconds()
	}
	if s.Quorum {
		toDeadLetters["x-delivery-limit"] = int64(s.DeliveryLimit)
		// each walk counts, and RabbitMQ 4 would drop a message after 20 of them
		deadLetters["x-delivery-limit"] = int64(math.MaxInt32)
	}
	all := []queueSpec{{s.queue, work}, {s.deadLetterQueue(), deadLetters}}
	for _, level := range s.levels {
		delay := s.setDeadLetterTarget(amqp.Table{}, s.queue)
		delay[amqp.QueueMessageTTLArg] = level
		all = append(all, queueSpec{s.delayQueue(level), delay})
	}
	return all
}

// queueType returns the type of all queues. It is always set: a virtual host may have another
// default type, and a quorum queue without a limit may have a default that drops a message after
// twenty reads.
func (s *settings) queueType() string {
	if s.Quorum {
		return amqp.QueueTypeQuorum
	}
	return amqp.QueueTypeClassic
}

// setDeadLetterTarget makes a queue move its expired and refused messages to another queue.
func (s *settings) setDeadLetterTarget(args amqp.Table, to string) amqp.Table {
	args["x-dead-letter-exchange"], args["x-dead-letter-routing-key"] = "", to
	args[amqp.QueueTypeArg] = s.queueType()
	if s.Quorum {
		args["x-dead-letter-strategy"] = "at-least-once" // default: at most once
		args[amqp.QueueOverflowArg] = amqp.QueueOverflowRejectPublish
	}
	return args
}

// declare makes the topology over l. After an error l cannot be used.
func (s *settings) declare(ctx context.Context, l *link) error {
	defer context.AfterFunc(ctx, l.sever)() // the client's calls take no context
	for _, q := range s.queues() {
		var err error
		if s.Passive {
			_, err = l.channel.QueueDeclarePassive(q.name, true, false, false, false, nil)
		} else {
			_, err = l.channel.QueueDeclare(q.name, true, false, false, false, q.args)
		}
		if err != nil {
			return s.declareError(ctx, l, err, "queue", q.name)
		}
	}
	if s.Exchange == "" || s.Passive {
		return nil
	}
	if err := l.channel.ExchangeDeclare(s.Exchange, amqp.ExchangeTopic, true, false, false, false, nil); err != nil {
		return s.declareError(ctx, l, err, "exchange", s.Exchange)
	}
	for _, key := range s.Bindings {
		if err := l.channel.QueueBind(s.queue, key, s.Exchange, false, nil); err != nil {
			return s.declareError(ctx, l, err, "binding to the exchange", s.Exchange)
		}
	}
	return nil
}

// declareError returns an error with advice about a queue or an exchange.
func (s *settings) declareError(ctx context.Context, l *link, err error, what, name string) error {
	var e *amqp.Error
	if !errors.As(err, &e) || !e.Server {
		if l.closeErr.Load() != nil {
			err = l.endReason()
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("amqpidem: the connection ended while the %s %q was declared; try again: %w", what, name, err)
	}
	switch e.Code {
	case amqp.PreconditionFailed:
		return fmt.Errorf("amqpidem: the %s %q exists with other arguments; nothing was changed: use the Options that it was made with, or Options.Passive, "+
			"or empty and delete it first: %w", what, name, err)
	case amqp.NotFound:
		return &brokerRefusal{ErrMissing, err, fmt.Sprintf("amqpidem: the %s %q does not exist; nothing was changed: make it with Declare, or leave out Options.Passive", what, name)}
	case amqp.AccessRefused:
		return &brokerRefusal{ErrDenied, err, fmt.Sprintf("amqpidem: no permission for the %s %q; nothing was changed: grant it, or have somebody else declare it and use Options.Passive "+
			"(with the permissions to read the queue and to write to amq.default)", what, name)}
	case amqp.ResourceLocked:
		return fmt.Errorf("amqpidem: the %s %q is exclusively another connection's; nothing was changed: use another name: %w", what, name, err)
	}
	return fmt.Errorf("amqpidem: RabbitMQ refuses the %s %q: %w", what, name, err)
}

// holdsFor returns how long a copy can stay in the queues.
func (s *settings) holdsFor() time.Duration {
	if s.TTL == 0 {
		return 0
	}
	return s.TTL + time.Duration(s.levels[len(s.levels)-1])*time.Millisecond
}
