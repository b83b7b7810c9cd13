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
	writing    chan struct{} // one message is written at a time
}

func newDeadLetters(cl *kgo.Client, o Options, connection []kgo.Opt) *DeadLetters {
	return &DeadLetters{cl: cl, o: o, connection: connection, writing: make(chan struct{}, 1)}
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
	if _, err := findTopic(ctx, cl, o.DeadTopic, o.Timeout); err != nil {
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

// produceOne produces one record, and returns when it is confirmed. It sends one record at a time:
// the client would put several into one batch, which may be too large even if no record is.
func (p *DeadLetters) produceOne(ctx context.Context, r *kgo.Record) error {
	ctx, end := context.WithTimeout(ctx, p.o.Timeout)
	defer end()
	select {
	case p.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.writing }()
	return produceAll(ctx, p.cl, []*kgo.Record{r})[0]
}

// addDeadLetter writes a dead letter.
func (p *DeadLetters) addDeadLetter(ctx context.Context, m *mqidem.Message, why mqidem.Reason) error {
	err := mqidem.Fit(m, why, isTooLarge, func(m *mqidem.Message, packed []byte) error {
		r := recordOf(p.o.DeadTopic, m)
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: mqidem.HeaderDead, Value: packed})
		return p.produceOne(ctx, r)
	})
	if err != nil {
		return fmt.Errorf("the dead letter is not confirmed: %w", explainError(err))
	}
	return nil
}

// Send implements mqidem.DeadLetters.
func (p *DeadLetters) Send(ctx context.Context, m *mqidem.Message) error {
	if err := p.produceOne(ctx, recordOf(m.Source, m)); err != nil {
		return fmt.Errorf("kafkaidem: the redriven message is not confirmed; it stays in the dead-letter queue: %w", explainError(err))
	}
	return nil
}

// Walk implements mqidem.DeadLetters. A walk that removes nothing writes nothing. Removed messages
// are deleted when the walk has shown all of their partition, also if see or the context ends it
// (DeleteRecords, which needs the ACL Delete on the topic). If the process dies before, the next
// walk shows them again. Messages that are kept before a removed one are written again at the end.
// If the topic has several partitions, each has its own order, and one comes after the other.
func (p *DeadLetters) Walk(ctx context.Context, see func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) error {
	topic, err := findTopic(ctx, p.cl, p.o.DeadTopic, p.o.Timeout)
	if err != nil {
		return fmt.Errorf("kafkaidem: cannot look at the dead letters; nothing was changed: %w", err)
	}
	spans, err := p.offsetSpans(ctx, topic)
	if err != nil {
		return fmt.Errorf("kafkaidem: cannot look at the dead letters; nothing was changed: %w", err)
	}
	for _, n := range topic.parts {
		if at := spans[n]; at.from < at.to {
			w := &walk{deadLetters: p, ctx: ctx, partition: n, see: see}
			if err := w.run(at); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// offsetSpan is the range of offsets that a walk shows.
type offsetSpan struct{ from, to int64 }

func (p *DeadLetters) offsetSpans(ctx context.Context, topic *topicInfo) (map[int32]offsetSpan, error) {
	ctx, end := context.WithTimeout(ctx, p.o.Timeout)
	defer end()
	to, err := listOffsets(ctx, p.cl, topic, newestOffset)
	if err != nil {
		return nil, err
	}
	first, err := listOffsets(ctx, p.cl, topic, oldestOffset)
	if err != nil {
		return nil, err
	}
	all := map[int32]offsetSpan{}
	for _, n := range topic.parts {
		all[n] = offsetSpan{first[n], to[n]}
	}
	return all, nil
}

// readDeadLetter returns the dead letter of a record.
func (p *DeadLetters) readDeadLetter(r *kgo.Record) *mqidem.DeadLetter {
	m := messageOf(r, 1)
	m.Source = p.o.Topic
	why, err := mqidem.ParseReason(m.Headers[mqidem.HeaderDead])
	if err != nil {
		why = mqidem.Reason{Why: mqidem.DeadUnreadable, Source: p.o.Topic, At: r.Timestamp}
	}
	delete(m.Headers, mqidem.HeaderDead)
	return &mqidem.DeadLetter{Message: m, Reason: why}
}
