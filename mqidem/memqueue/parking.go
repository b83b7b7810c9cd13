package memqueue

import (
	"context"
	"slices"

	"github.com/retrysafe/retrysafe/mqidem"
)

// Parking is the dead-letter queue of a queue.
type Parking struct {
	broker *Broker
	name   string
}

// Parking returns the dead-letter queue of a queue.
func (b *Broker) Parking(queue string) *Parking { return &Parking{b, queue} }

// Walk implements [mqidem.Parking]. It also shows a message that another walk has removed
// meanwhile.
func (p *Parking) Walk(ctx context.Context, see func(context.Context, *mqidem.Parked) (mqidem.Verdict, error)) error {
	for _, e := range p.all() {
		if err := ctx.Err(); err != nil {
			return err
		}
		v, err := see(ctx, &mqidem.Parked{Message: e.message.Clone(), Reason: e.reason})
		if err != nil {
			return err
		}
		if v == mqidem.Remove {
			p.remove(e)
		}
	}
	return nil
}

func (p *Parking) all() []*entry {
	p.broker.mu.Lock()
	defer p.broker.mu.Unlock()
	return slices.Clone(p.broker.queue(p.name).parked)
}

func (p *Parking) remove(e *entry) {
	p.broker.mu.Lock()
	defer p.broker.mu.Unlock()
	q := p.broker.queue(p.name)
	q.parked = slices.DeleteFunc(q.parked, func(other *entry) bool { return other == e })
}

// Send implements [mqidem.Parking].
func (p *Parking) Send(ctx context.Context, m *mqidem.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := m.Clone()
	c.Deliveries = 0
	p.broker.mu.Lock()
	defer p.broker.mu.Unlock()
	if err := p.broker.gone(); err != nil {
		return err
	}
	p.broker.queue(c.Source).push(&entry{message: c})
	return nil
}
