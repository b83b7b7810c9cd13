package kafkaidem

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/retrysafe/retrysafe/outbox"
)

// Publisher is an outbox.Publisher and an outbox.Ordered. The topic of a message is the topic, and
// its key is the key, which selects the partition. It can be used concurrently.
type Publisher struct{ cl *kgo.Client }

var _ outbox.Ordered = (*Publisher)(nil)

// NewPublisher returns a publisher on its own connections. Close it at the end. All in-sync
// replicas must confirm a message, and the broker recognises the client's own retries (an
// idempotent producer). A message that is not confirmed within 10 s goes back to the outbox, unless
// the options have kgo.RecordDeliveryTimeout.
func NewPublisher(connection ...kgo.Opt) (*Publisher, error) {
	cl, err := kgo.NewClient(producerOpts(10*time.Second, connection)...)
	if err != nil {
		return nil, fmt.Errorf("kafkaidem: the options of the connection do not fit: %w", err)
	}
	return &Publisher{cl}, nil
}

// producerOpts returns the options of a client that writes. The caller's options take precedence,
// except where the guarantees depend on one.
func producerOpts(timeout time.Duration, connection []kgo.Opt) []kgo.Opt {
	opts := append([]kgo.Opt{
		kgo.RecordDeliveryTimeout(max(timeout, time.Second)), kgo.ProducerLinger(0), kgo.UnknownTopicRetries(1), kgo.MetadataMinAge(100 * time.Millisecond),
	}, connection...)
	return append(opts, kgo.RequiredAcks(kgo.AllISRAcks()))
}

// largestMessage is the largest message that can be dead-lettered and redriven, if the topics
// accept it. The client's own limit, 1 MB, is less than that of many topics: a message could be
// read, and neither dead-lettered nor acked.
const largestMessage = 64 << 20

// deadLetterOpts returns the options of a client that writes messages that it has read. The best
// compression comes first: with a worse one, a message that another producer has compressed better
// might be too large.
func deadLetterOpts(timeout time.Duration, connection []kgo.Opt) []kgo.Opt {
	return producerOpts(timeout, append([]kgo.Opt{
		kgo.ProducerBatchMaxBytesFn(func(topic string) int32 {
			if topic == "" {
				// asked when the client is made, and compared with the limit of the caller's
				// requests
				return 1_000_012
			}
			return largestMessage
		}),
		kgo.ProducerBatchCompression(kgo.ZstdCompression(), kgo.SnappyCompression(), kgo.NoCompression()),
	}, connection...))
}

// Close ends the connections. Unconfirmed messages fail. It returns nil.
func (p *Publisher) Close() error {
	p.cl.Close()
	return nil
}

// KeepsOrder implements outbox.Ordered: a message is sent when the earlier ones of its key are
// confirmed. The client's own order is not enough: it sends on after a message that the broker has
// refused.
func (p *Publisher) KeepsOrder() bool { return true }

// Publish implements outbox.Publisher. A message that is too large and an invalid topic are
// permanent errors. A missing topic is not.
func (p *Publisher) Publish(ctx context.Context, batch []outbox.Outgoing) []error {
	errs := make([]error, len(batch))
	failed := map[string]bool{}
	left := make([]int, len(batch))
	for i := range left {
		left[i] = i
	}
	for len(left) > 0 {
		var wave, later []int
		var records []*kgo.Record
		now := map[string]bool{}
		for _, i := range left {
			switch key := batch[i].Key; {
			case ctx.Err() != nil:
				errs[i] = outbox.Unavailable(ctx.Err())
			case key != "" && failed[key]:
				errs[i] = outbox.ErrHeldUp
			case key != "" && now[key]:
				later = append(later, i)
			default:
				now[key] = true
				wave, records = append(wave, i), append(records, outgoingRecord(&batch[i]))
			}
		}
		for n, err := range p.produceInTime(ctx, records) {
			i := wave[n]
			if errs[i] = outboxError(err); err != nil {
				failed[batch[i].Key] = true
			}
		}
		left = later
	}
	return errs
}

// produceInTime writes records, and waits no longer than twice the client's limit. The client
// itself waits for ever for a record that a broker may have, such as one for which replicas are
// missing.
func (p *Publisher) produceInTime(ctx context.Context, records []*kgo.Record) []error {
	if limit, _ := p.cl.OptValue(kgo.RecordDeliveryTimeout).(time.Duration); limit > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, 2*limit)
		defer end()
	}
	return produceAll(ctx, p.cl, records)
}

func outgoingRecord(m *outbox.Outgoing) *kgo.Record {
	r := contentRecord(m.Topic, m.ID, m.Key, m.ContentType, m.Payload)
	for name, value := range m.Headers {
		if !isOwnHeader(name) {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
	}
	return r
}
