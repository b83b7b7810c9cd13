package kafkaidem

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/retrysafe/retrysafe/outbox"
)

// Publisher is an outbox.Publisher, and an outbox.Ordered one: the topic of a message is the topic,
// its key the key, by which the partition is chosen. It is safe for concurrent use.
type Publisher struct{ cl *kgo.Client }

var _ outbox.Ordered = (*Publisher)(nil)

// NewPublisher makes one on connections of its own. Close it in the end. All replicas in sync have
// to confirm a message, and the client's own repeats are known to the broker (an idempotent
// producer). A message that is not confirmed within 10 s is given back to the outbox, unless
// kgo.RecordDeliveryTimeout is among the options.
func NewPublisher(connection ...kgo.Opt) (*Publisher, error) {
	cl, err := kgo.NewClient(producing(10*time.Second, connection)...)
	if err != nil {
		return nil, fmt.Errorf("kafkaidem: the options of the connection do not fit: %w", err)
	}
	return &Publisher{cl}, nil
}

// producing are the options of a client that writes: those of the caller count, but for what the
// promises rest on.
func producing(timeout time.Duration, connection []kgo.Opt) []kgo.Opt {
	opts := append([]kgo.Opt{
		kgo.RecordDeliveryTimeout(max(timeout, time.Second)), kgo.ProducerLinger(0), kgo.UnknownTopicRetries(1), kgo.MetadataMinAge(100 * time.Millisecond),
	}, connection...)
	return append(opts, kgo.RequiredAcks(kgo.AllISRAcks()))
}

// largest is the size of the largest message that can be parked and put back, if the topics take
// it. The client's own limit, 1 MB, is less than that of many topics: a message could be read, and
// neither parked nor acked.
const largest = 64 << 20

// parkingOpts are the options of a client that writes what was read. The best compression comes
// first: what another producer has compressed better than this one would might not be taken.
func parkingOpts(timeout time.Duration, connection []kgo.Opt) []kgo.Opt {
	return producing(timeout, append([]kgo.Opt{
		kgo.ProducerBatchMaxBytesFn(func(topic string) int32 {
			if topic == "" {
				// asked when the client is made, and compared with what the caller lets it send at
				// once
				return 1_000_012
			}
			return largest
		}),
		kgo.ProducerBatchCompression(kgo.ZstdCompression(), kgo.SnappyCompression(), kgo.NoCompression()),
	}, connection...))
}

// Close ends the connections. What waits for a confirmation fails.
func (p *Publisher) Close() { p.cl.Close() }

// KeepsOrder implements outbox.Ordered: a message goes out when those of its key before it are
// confirmed. The client's own order would not do: it sends on behind a message that the broker has
// refused.
func (p *Publisher) KeepsOrder() bool { return true }

// Publish implements outbox.Publisher. Too large a message, and a topic that cannot be, are
// permanent; a topic that is not there is not.
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
				wave, records = append(wave, i), append(records, outgoing(&batch[i]))
			}
		}
		for n, err := range produce(ctx, p.cl, records) {
			i := wave[n]
			if errs[i] = sort(err); err != nil {
				failed[batch[i].Key] = true
			}
		}
		left = later
	}
	return errs
}

func outgoing(m *outbox.Outgoing) *kgo.Record {
	r := content(m.Topic, m.ID, m.Key, m.ContentType, m.Payload)
	for name, value := range m.Headers {
		if !ours(name) {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
	}
	return r
}
