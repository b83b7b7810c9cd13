package kafkaidem

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/retrysafe/retrysafe/mqidem"
)

// DeadLetters is a mqidem.DeadLetters on its own topic. It can be used concurrently, except for
// walks: two at once, in any processes, may show a message twice and keep it twice.
type DeadLetters struct {
	cl         *kgo.Client
	o          Options
	connection []kgo.Opt
	alone      chan struct{} // one message is written at a time
}

func newDeadLetters(cl *kgo.Client, o Options, connection []kgo.Opt) *DeadLetters {
	return &DeadLetters{cl: cl, o: o, connection: connection, alone: make(chan struct{}, 1)}
}

var _ mqidem.DeadLetters = (*DeadLetters)(nil)

// OpenDeadLetters opens the dead-letter queue of options on its own connections. Close it at the
// end.
func OpenDeadLetters(ctx context.Context, options *Options, connection ...kgo.Opt) (*DeadLetters, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(deadLetterOpts(o.Timeout, connection)...)
	if err != nil {
		return nil, fmt.Errorf("kafkaidem: the options of the connection do not fit: %w", err)
	}
	if _, err := find(ctx, cl, o.DeadTopic, o.Timeout); err != nil {
		cl.Close()
		return nil, fmt.Errorf("kafkaidem: cannot open the topic %s; Create makes it: %w", o.DeadTopic, err)
	}
	return newDeadLetters(cl, o, connection), nil
}

// Close ends the connections. It returns nil.
func (p *DeadLetters) Close() error {
	p.cl.Close()
	return nil
}

// write produces one record, and returns when it is confirmed. It sends one record at a time: the
// client would put several into one batch, which may be too large even if no record is.
func (p *DeadLetters) write(ctx context.Context, r *kgo.Record) error {
	ctx, end := context.WithTimeout(ctx, p.o.Timeout)
	defer end()
	select {
	case p.alone <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.alone }()
	return produce(ctx, p.cl, []*kgo.Record{r})[0]
}

// add writes a dead letter.
func (p *DeadLetters) add(ctx context.Context, m *mqidem.Message, why mqidem.Reason) error {
	err := mqidem.Fit(m, why, tooLarge, func(m *mqidem.Message, packed []byte) error {
		r := record(p.o.DeadTopic, m)
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: mqidem.HeaderDead, Value: packed})
		return p.write(ctx, r)
	})
	if err != nil {
		return fmt.Errorf("the dead letter is not confirmed: %w", explain(err))
	}
	return nil
}

// Send implements mqidem.DeadLetters.
func (p *DeadLetters) Send(ctx context.Context, m *mqidem.Message) error {
	if err := p.write(ctx, record(m.Source, m)); err != nil {
		return fmt.Errorf("kafkaidem: the redriven message is not confirmed; it stays in the dead-letter queue: %w", explain(err))
	}
	return nil
}

// Walk implements mqidem.DeadLetters. A walk that removes nothing writes nothing. Removed messages
// are deleted when the walk has shown all of their partition, also if see or the context ends it
// (DeleteRecords, which needs the ACL Delete on the topic). If the process dies before, the next
// walk shows them again. Messages that are kept before a removed one are written again at the end.
// If the topic has several partitions, each has its own order, and one comes after the other.
func (p *DeadLetters) Walk(ctx context.Context, see func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) error {
	topic, err := find(ctx, p.cl, p.o.DeadTopic, p.o.Timeout)
	if err != nil {
		return fmt.Errorf("kafkaidem: cannot look at the dead letters; nothing was changed: %w", err)
	}
	spans, err := p.spans(ctx, topic)
	if err != nil {
		return fmt.Errorf("kafkaidem: cannot look at the dead letters; nothing was changed: %w", err)
	}
	for _, n := range topic.parts {
		if at := spans[n]; at.from < at.to {
			w := &walk{p: p, ctx: ctx, n: n, see: see}
			if err := w.run(at); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// span is the range of offsets that a walk shows.
type span struct{ from, to int64 }

func (p *DeadLetters) spans(ctx context.Context, topic *topicInfo) (map[int32]span, error) {
	ctx, end := context.WithTimeout(ctx, p.o.Timeout)
	defer end()
	to, err := listOffsets(ctx, p.cl, topic, newest)
	if err != nil {
		return nil, err
	}
	first, err := listOffsets(ctx, p.cl, topic, oldest)
	if err != nil {
		return nil, err
	}
	all := map[int32]span{}
	for _, n := range topic.parts {
		all[n] = span{first[n], to[n]}
	}
	return all, nil
}

// read returns the dead letter of a record.
func (p *DeadLetters) read(r *kgo.Record) *mqidem.DeadLetter {
	m := message(r, 1)
	m.Source = p.o.Topic
	why, err := mqidem.ParseReason(m.Headers[mqidem.HeaderDead])
	if err != nil {
		why = mqidem.Reason{Why: mqidem.DeadUnreadable, Source: p.o.Topic, At: r.Timestamp}
	}
	delete(m.Headers, mqidem.HeaderDead)
	return &mqidem.DeadLetter{Message: m, Reason: why}
}
