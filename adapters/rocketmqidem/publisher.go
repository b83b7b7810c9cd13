package rocketmqidem

import (
	"context"
	"hash/fnv"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

// Publisher is an outbox.Publisher and an outbox.Ordered. The topic of a message is the topic, and
// its key is the sharding key, which selects the queue. It can be used concurrently.
type Publisher struct{ sender *sender }

var _ outbox.Ordered = (*Publisher)(nil)

// NewPublisher returns a publisher on its own connections. Close it at the end. A message that is
// not confirmed within 10 s goes back to the outbox. A nil logger is slog.Default(); it gets the
// errors of the client.
func NewPublisher(servers *Servers, logger *slog.Logger) (*Publisher, error) {
	if logger == nil {
		logger = slog.Default()
	}
	sharedLog.use(logger)
	s, err := newSender(servers, 10*time.Second)
	if err != nil {
		return nil, err
	}
	return &Publisher{s}, nil
}

// Close ends the connections. Unconfirmed messages fail. It returns nil.
func (p *Publisher) Close() error {
	p.sender.close()
	return nil
}

// KeepsOrder implements outbox.Ordered: all messages of a key go to one queue, one request after
// the other, and none is sent after one that is not confirmed.
func (p *Publisher) KeepsOrder() bool { return true }

const (
	mostInBatch      = 64
	mostInBatchBytes = 512 << 10
	usualQueues      = 4 // of a topic that nothing was sent to yet
)

// lane is what goes to one queue of a topic, in order.
type lane struct {
	topic    string
	number   int
	messages []int // places in the batch
}

// Publish implements outbox.Publisher. Messages for one queue are sent in batches. The broker takes
// all of a batch or none. A message that is too large is a permanent error. A missing topic is not.
func (p *Publisher) Publish(ctx context.Context, batch []outbox.Outgoing) []error {
	errs := make([]error, len(batch))
	var all sync.WaitGroup
	for _, l := range p.lanesOf(batch) {
		all.Go(func() { p.publishLane(ctx, batch, l, errs) })
	}
	all.Wait()
	return errs
}

// lanesOf sorts messages by queues. Messages without a key go to any queue, together.
func (p *Publisher) lanesOf(batch []outbox.Outgoing) []*lane {
	type name struct {
		topic  string
		number int
	}
	found, lanes, free := map[name]*lane{}, []*lane(nil), mathrand.Int32() //nolint:gosec // no secret
	for i := range batch {
		queues := p.sender.queueCount(batch[i].Topic)
		if queues == 0 {
			queues = usualQueues
		}
		n := name{batch[i].Topic, int(free) % queues}
		if batch[i].Key != "" {
			n.number = laneOf(batch[i].Key) % queues
		}
		if found[n] == nil {
			found[n] = &lane{topic: n.topic, number: n.number}
			lanes = append(lanes, found[n])
		}
		found[n].messages = append(found[n].messages, i)
	}
	return lanes
}

// laneOf returns the number of a key, of which the remainder by the number of queues is the queue.
func laneOf(key string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // never fails
	return int(h.Sum32() >> 1)
}

// publishLane sends the messages of a lane. If the broker refuses a batch because of a message in
// it, the messages are sent one by one.
func (p *Publisher) publishLane(ctx context.Context, batch []outbox.Outgoing, l *lane, errs []error) {
	failed := map[string]bool{}
	for rest := l.messages; len(rest) > 0; {
		var part []int
		for size := 0; len(rest) > 0 && len(part) < mostInBatch && (len(part) == 0 || size+outgoingSize(&batch[rest[0]]) <= mostInBatchBytes); rest = rest[1:] {
			if failed[batch[rest[0]].Key] {
				errs[rest[0]] = outbox.ErrHeldUp
				continue
			}
			size += outgoingSize(&batch[rest[0]])
			part = append(part, rest[0])
		}
		if len(part) == 0 {
			continue
		}
		err := p.sendAll(ctx, batch, l, part)
		if isOfOne(err) && len(part) > 1 {
			for _, i := range part {
				if failed[batch[i].Key] {
					errs[i] = outbox.ErrHeldUp
				} else if errs[i] = outboxError(p.sendAll(ctx, batch, l, []int{i})); errs[i] != nil {
					failed[batch[i].Key] = batch[i].Key != ""
				}
			}
			continue
		}
		for _, i := range part {
			if errs[i] = outboxError(err); err != nil {
				failed[batch[i].Key] = batch[i].Key != ""
			}
		}
	}
}

// sendAll sends messages in one request.
func (p *Publisher) sendAll(ctx context.Context, batch []outbox.Outgoing, l *lane, part []int) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	records := make([]*primitive.Message, len(part))
	for n, i := range part {
		records[n] = outgoingRecord(&batch[i])
	}
	return p.sender.send(ctx, l.number, records...)
}

// outgoingSize returns about how large a message is.
func outgoingSize(m *outbox.Outgoing) int { return len(m.Payload) + len(m.ID) + len(m.Key) + 200 }

func outgoingRecord(m *outbox.Outgoing) *primitive.Message {
	headers := make(map[string][]byte, len(m.Headers))
	for name, value := range m.Headers {
		headers[name] = []byte(value)
	}
	return newRecord(m.Topic, m.Payload, propertiesOf(&mqidem.Message{ID: m.ID, Key: m.Key, ContentType: m.ContentType, Headers: headers}))
}
