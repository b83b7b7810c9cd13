package memqueue

import (
	"context"
	"slices"

	"github.com/retrysafe/retrysafe/mqidem"
)

// DeadLetters is the dead-letter queue of a queue.
type DeadLetters struct {
	broker *Broker
	name   string
}

// DeadLetters returns the dead-letter queue of a queue.
func (b *Broker) DeadLetters(queue string) *DeadLetters { return &DeadLetters{b, queue} }

// Walk implements [mqidem.DeadLetters]. It also shows a message that another walk has removed
// meanwhile.
func (p *DeadLetters) Walk(ctx context.Context, see func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) error {
	for _, e := range p.entries() {
		if err := ctx.Err(); err != nil {
			return err
		}
		v, err := see(ctx, &mqidem.DeadLetter{Message: e.message.Clone(), Reason: e.reason})
		if err != nil {
			return err
		}
		if v == mqidem.Remove {
			p.remove(e)
		}
	}
	return nil
}

func (p *DeadLetters) entries() []*entry {
	p.broker.mu.Lock()
	defer p.broker.mu.Unlock()
	return slices.Clone(p.broker.queueOf(p.name).dead)
}

func (p *DeadLetters) remove(e *entry) {
	p.broker.mu.Lock()
	defer p.broker.mu.Unlock()
	q := p.broker.queueOf(p.name)
	q.dead = slices.DeleteFunc(q.dead, func(other *entry) bool { return other == e })
}

// Send implements [mqidem.DeadLetters].
func (p *DeadLetters) Send(ctx context.Context, m *mqidem.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := m.Clone()
	c.Deliveries = 0
	p.broker.mu.Lock()
	defer p.broker.mu.Unlock()
	if err := p.broker.checkOpen(); err != nil {
		return err
	}
	p.broker.queueOf(c.Source).push(&entry{message: c})
	return nil
}
