package rocketmqidem

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/retrysafe/retrysafe/mqidem"
)

// DeadLetters is a mqidem.DeadLetters on its own topic. It can be used concurrently, except for
// walks: two at once, in any processes, may show a message twice and keep it twice.
type DeadLetters struct {
	servers *Servers
	o       Options
	sender  *sender
}

var _ mqidem.DeadLetters = (*DeadLetters)(nil)

// OpenDeadLetters opens the dead-letter queue of options on its own connections. Close it at the
// end.
func OpenDeadLetters(ctx context.Context, servers *Servers, options *Options) (*DeadLetters, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := servers.check(); err != nil {
		return nil, err
	}
	sharedLog.use(o.Logger)
	if err := checkTopics(ctx, servers, o.Timeout, o.DeadTopic); err != nil {
		return nil, err
	}
	return openDeadLetters(servers, o)
}

func openDeadLetters(servers *Servers, o Options) (*DeadLetters, error) {
	s, err := newSender(servers, o.Timeout)
	if err != nil {
		return nil, err
	}
	return &DeadLetters{servers: servers, o: o, sender: s}, nil
}

// Close ends the connections. It returns nil.
func (p *DeadLetters) Close() error {
	p.sender.close()
	return nil
}

// addDeadLetter writes a dead letter.
func (p *DeadLetters) addDeadLetter(ctx context.Context, m *mqidem.Message, why mqidem.Reason) error {
	err := mqidem.Fit(m, why, isTooLarge, func(m *mqidem.Message, packed []byte) error {
		props := propertiesOf(m)
		props[mqidem.HeaderDead] = string(packed)
		props[propPublished] = strconv.FormatInt(m.Published.UnixMilli(), 10)
		return p.sender.send(ctx, 0, newRecord(p.o.DeadTopic, m.Body, props))
	})
	if err != nil {
		return fmt.Errorf("the dead letter is not confirmed: %w", explainError(err))
	}
	return nil
}

// Send implements mqidem.DeadLetters. All groups of the topic get the message.
func (p *DeadLetters) Send(ctx context.Context, m *mqidem.Message) error {
	lane := anyLane
	if m.Key != "" {
		lane = laneOf(m.Key)
	}
	if err := p.sender.send(ctx, lane, newRecord(m.Source, m.Body, propertiesOf(m))); err != nil {
		return fmt.Errorf("rocketmqidem: the redriven message is not confirmed; it stays in the dead-letter queue: %w", explainError(err))
	}
	return nil
}

// readDeadLetter returns the dead letter of a message.
func (p *DeadLetters) readDeadLetter(r *primitive.MessageExt) *mqidem.DeadLetter {
	m := messageOf(r)
	m.Source, m.Deliveries = p.o.Topic, 1
	why, err := mqidem.ParseReason(m.Headers[mqidem.HeaderDead])
	if err != nil {
		why = mqidem.Reason{Why: mqidem.DeadUnreadable, Source: p.o.Topic, At: time.UnixMilli(r.StoreTimestamp)}
	}
	delete(m.Headers, mqidem.HeaderDead)
	return &mqidem.DeadLetter{Message: m, Reason: why}
}
