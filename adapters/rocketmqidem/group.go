package rocketmqidem

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/hooks"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/retrysafe/retrysafe/backoff"
)

// groupClient is the client as a member of a group. We use its pull consumer, and read the queues
// ourselves. The push consumer calls a function for each message, and commits at some time after
// that function has returned: then Ack and Close could not say what is committed, and a message
// that is in work for longer than a limit would be sent to a second consumer. The pull consumer's
// Poll and ACK settle all messages of one read together, and it reads all queues without a limit,
// also one that waits. But it commits the offset that we give it (UpdateOffset, PersistOffset), and
// reads where we say (PullFrom). Its part is the group: which queues are whose.
//
// It also reads queues by itself, and has no switch for that; see stopOwnReads.
type groupClient struct {
	pull interface {
		Start() error
		Shutdown() error
		Subscribe(topic string, selector consumer.MessageSelector) error
		Assign(topic string, queues []*primitive.MessageQueue) error
		GetTopicRouteInfo(topic string) ([]*primitive.MessageQueue, error)
		PullFrom(ctx context.Context, q *primitive.MessageQueue, offset int64, numbers int) (*primitive.PullResult, error)
		UpdateOffset(q *primitive.MessageQueue, offset int64) error
		PersistOffset(ctx context.Context, topic string) error
		CurrentOffset(q *primitive.MessageQueue) (int64, error)
	}
	name string // by which the group knows it
	// *primitive.MessageQueue: the queues of our own reads
	reads     *sync.Map
	onGap     func(id primitive.MessageQueue, from, to int64) // see findGaps
	rebalance func()
	held      func() map[primitive.MessageQueue]heldQueue
}

// heldQueue is a queue that the client has.
type heldQueue struct {
	offset  int64 // the committed one; below 0: none
	dropped bool  // by the client, which gives it back later
}

// owned returns the queues of this consumer, with the committed offset.
func (c *groupClient) owned() map[primitive.MessageQueue]int64 {
	all := map[primitive.MessageQueue]int64{}
	for id, q := range c.held() {
		if !q.dropped {
			all[id] = q.offset
		}
	}
	return all
}

func newGroupClient(servers *Servers, group string) (*groupClient, error) {
	client := &groupClient{name: instanceName(), reads: new(sync.Map)}
	opts := []consumer.Option{
		consumer.WithNsResolver(servers.resolver()), consumer.WithGroupName(group), consumer.WithInstance(client.name),
		consumer.WithConsumerModel(consumer.Clustering), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithPullBatchSize(1), consumer.WithPullInterval(time.Second), consumer.WithCredentials(servers.credentials()),
		consumer.WithStrategy(client.findGaps(keepQueues(consumer.AllocateByAveragely))),
		consumer.WithFilterMessageHook([]hooks.FilterMessageHook{stopOwnReads(client.reads)}),
	}
	if servers.TLS {
		opts = append(opts, consumer.WithTls(true))
	}
	c, err := consumer.NewPullConsumer(opts...)
	if err != nil {
		return nil, err
	}
	client.pull, client.rebalance = c, c.Rebalance
	client.held = func() map[primitive.MessageQueue]heldQueue {
		all := map[primitive.MessageQueue]heldQueue{}
		for id, q := range c.GetConsumerRunningInfo(false).MQTable {
			all[id] = heldQueue{q.CommitOffset, q.Dropped}
		}
		return all
	}
	return client, nil
}

// stopOwnReads returns a function that the client calls for messages that it has read. It ends the
// client's own reads of a queue at the first message that they find: the client reads on only where
// it has a subscription to the topic, so the name of the topic is taken from its queue. If it read
// on, it could move the offset past messages that are not settled, and could end the process when
// it is closed: it then closes a channel to which it still sends.
func stopOwnReads(reads *sync.Map) hooks.FilterMessageHook {
	return func(found *hooks.FilterMessageContext) ([]*primitive.MessageExt, error) {
		if _, ours := reads.Load(found.MQ); ours {
			return found.Msg, nil
		}
		found.MQ.Topic = ""
		return nil, nil
	}
}

// keepQueues returns a strategy that keeps the queues while the broker knows no consumer of the
// group: it has just been started again, and has not heard of this one yet.
func keepQueues(strategy consumer.AllocateStrategy) consumer.AllocateStrategy {
	var mu sync.Mutex
	last := map[string][]*primitive.MessageQueue{}
	return func(group, id string, queues []*primitive.MessageQueue, consumers []string) []*primitive.MessageQueue {
		mu.Lock()
		defer mu.Unlock()
		if len(queues) == 0 {
			return nil
		}
		topic := queues[0].Topic
		if len(consumers) > 0 {
			last[topic] = strategy(group, id, queues, consumers)
		}
		return last[topic]
	}
}

// findGaps returns a strategy that looks for messages that a queue has lost, before the client gets
// the queue. If the client found the gap by its own read, it would move the group's offset to the
// end of the gap and say nothing. It then also drops the queue and gets it again after up to 30 s.
// A queue of which the broker tells nothing is left to the next time.
func (c *groupClient) findGaps(strategy consumer.AllocateStrategy) consumer.AllocateStrategy {
	return func(group, id string, queues []*primitive.MessageQueue, consumers []string) []*primitive.MessageQueue {
		got := strategy(group, id, queues, consumers)
		if c.onGap == nil {
			return got
		}
		held := c.held()
		return slices.DeleteFunc(slices.Clone(got), func(q *primitive.MessageQueue) bool {
			if _, has := held[*q]; has {
				return false
			}
			from, to, err := c.findGap(*q)
			if err == nil && from < to {
				c.onGap(*q, from, to)
			}
			return err != nil
		})
	}
}

// findGap asks the broker for what a queue lacks: from the group's offset to the oldest message.
func (c *groupClient) findGap(id primitive.MessageQueue) (from, to int64, err error) {
	ctx, end := context.WithTimeout(context.Background(), 3*time.Second)
	defer end()
	at, err := queueSpan(ctx, c, id)
	if err != nil {
		return 0, 0, err
	}
	offset, err := c.pull.CurrentOffset(&id)
	if err != nil || offset < 0 { // the group has none
		return 0, 0, err
	}
	return offset, at.from, nil
}

// awaitCommits returns when the brokers have the offsets that were sent to them before, as far as
// they can be reached. The client sends offsets without waiting for an answer; a question on the
// same connection comes after them. It asks for the offset of a queue that does not exist.
func (c *groupClient) awaitCommits(brokers []string, topic string) {
	for _, name := range brokers {
		_, _ = c.pull.CurrentOffset(&primitive.MessageQueue{Topic: topic, BrokerName: name, QueueId: 1 << 30})
	}
}

func (c *groupClient) close() { _ = c.pull.Shutdown() } // the client never returns an error

// watchInterval is the time between two looks at the queues that the client has got.
const watchInterval = 100 * time.Millisecond

// watchQueues adds and drops queues until the source is closed.
func (s *Source) watchQueues() {
	for s.ctx.Err() == nil {
		owned := s.client.owned()
		s.mu.Lock()
		dropped := false
		for id, q := range s.queues {
			if _, ok := owned[id]; !ok {
				q.lost, dropped = true, true
				delete(s.queues, id)
			}
		}
		added := false
		for id, offset := range owned {
			if s.queues[id] == nil {
				q := newQueue(id, max(0, offset))
				s.queues[id], added = q, true
				s.tasks.Go(func() { s.readQueue(q, offset >= 0) })
			}
		}
		if added || dropped {
			s.sortQueues()
			s.wakeWaiters()
		}
		s.mu.Unlock()
		_ = backoff.Pause(s.ctx, watchInterval)
	}
}

// reportGap reports messages that the broker has deleted.
func (s *Source) reportGap(id primitive.MessageQueue, from, to int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reportLost(id, from, to)
	s.wakeWaiters()
}

// reportLost reports messages that the broker has deleted, except for those that were reported
// before. The lock is held.
func (s *Source) reportLost(id primitive.MessageQueue, from, to int64) {
	messages := to - max(from, s.reportedTo[id])
	if messages <= 0 {
		return
	}
	s.reportedTo[id] = to
	s.o.Logger.Error("rocketmqidem: the broker has deleted messages that the group had not settled", "topic", id.Topic, "group", s.o.Group,
		"queue", id.QueueId, "messages", messages)
	s.reports = append(s.reports, &lostDelivery{s.o.Topic, id.QueueId, messages})
}

// sortQueues lists the queues, always in the same order. The lock is held.
func (s *Source) sortQueues() {
	s.order = s.order[:0:0]
	for _, q := range s.queues {
		s.order = append(s.order, q)
	}
	slices.SortFunc(s.order, func(a, b *queue) int { return compareQueues(a.id, b.id) })
}

func compareQueues(a, b primitive.MessageQueue) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.BrokerName, b.BrokerName), cmp.Compare(a.QueueId, b.QueueId))
}

// brokersOfQueues returns the names of the brokers that have queues of this consumer.
func (s *Source) brokersOfQueues() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.order {
		if !slices.Contains(names, q.id.BrokerName) {
			names = append(names, q.id.BrokerName)
		}
	}
	return names
}

// pullFrom reads messages of a queue. If there are none it waits for up to 20 s.
func (c *groupClient) pullFrom(ctx context.Context, id primitive.MessageQueue, offset int64) (*primitive.PullResult, error) {
	return untilDone(ctx, func() (*primitive.PullResult, error) {
		c.reads.Store(&id, nil)
		defer c.reads.Delete(&id)
		return c.pull.PullFrom(ctx, &id, offset, mostPulled)
	})
}

// mostPulled is how many messages are read at once. A broker gives no more by default.
const mostPulled = 32

// readQueue reads a queue until it goes to another consumer or the source is closed. known: the
// group had an offset.
func (s *Source) readQueue(q *queue, known bool) {
	for failed := 0; ; {
		offset, ok := s.awaitRoom(q)
		if !ok {
			return
		}
		r, err := s.client.pullFrom(s.ctx, q.id, offset)
		if err == nil {
			failed = 0
			s.queueRead(q, offset, r, known)
			known = true
			continue
		}
		failed++
		if failed > 1 && s.ctx.Err() == nil {
			s.o.Logger.Warn("rocketmqidem: cannot read a queue; it is tried again", "topic", q.id.Topic, "queue", q.id.QueueId, "group", s.o.Group, "error", err)
		}
		wait, _ := backoff.Backoff{MaxAttempts: failed + 2, MinWait: 100 * time.Millisecond, MaxWait: 3 * time.Second}.Next(s.ctx, failed, 0)
		_ = backoff.Pause(s.ctx, wait)
	}
}

// awaitRoom returns the offset to read from when there is room. It reports false if the queue is
// lost or the source closed.
func (s *Source) awaitRoom(q *queue) (offset int64, ok bool) {
	for s.ctx.Err() == nil {
		s.mu.Lock()
		lost, full, next, changed := q.lost, q.isFull(), q.next, s.changed
		s.mu.Unlock()
		switch {
		case lost:
			return 0, false
		case !full:
			return next, true
		}
		select {
		case <-q.roomMade:
		case <-changed:
		case <-s.ctx.Done():
		}
	}
	return 0, false
}

// queueRead queues what was read. known: the group had settled all before the offset.
func (s *Source) queueRead(q *queue, offset int64, r *primitive.PullResult, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.lost {
		return
	}
	defer s.wakeWaiters()
	switch r.Status {
	case primitive.PullFound:
		q.add(r.GetMessageExts(), r.NextBeginOffset)
	case primitive.PullOffsetIllegal:
		if missing := r.NextBeginOffset - offset; missing > 0 && known {
			s.reportLost(q.id, offset, r.NextBeginOffset)
		} else if missing < 0 {
			s.o.Logger.Warn("rocketmqidem: the queue ends before the group's offset: it was created again, or its broker has lost its end", "topic", q.id.Topic,
				"group", s.o.Group, "queue", q.id.QueueId, "offset", offset, "begins at", r.NextBeginOffset)
			q.settled, q.handedOut = r.NextBeginOffset, nil
			delete(s.reportedTo, q.id)
		}
		q.next = r.NextBeginOffset
		q.advance()
	default: // there is nothing, or nothing with the tags
		q.add(nil, r.NextBeginOffset)
	}
	s.requestCommit()
}

// commitLoop commits after messages were settled: one commit for all since the last one, and not
// too often.
func (s *Source) commitLoop() {
	for {
		select {
		case <-s.commitNeeded:
		case <-s.ctx.Done():
			return
		}
		s.commit()
		_ = backoff.Pause(s.ctx, s.o.CommitEvery)
	}
}

func (s *Source) requestCommit() {
	select {
	case s.commitNeeded <- struct{}{}:
	default:
	}
}

// commit commits the settled offset of each queue. The client sends the offsets again every 5 s, so
// one that is lost on the way is made up for.
func (s *Source) commit() {
	settled := map[primitive.MessageQueue]int64{}
	s.mu.Lock()
	for _, q := range s.order {
		settled[q.id] = q.settled
	}
	s.mu.Unlock()
	for id, offset := range settled { // not under the lock: the client may wait for a broker here
		_ = s.client.pull.UpdateOffset(&id, offset) // only keeps it; always nil
	}
	if err := s.client.pull.PersistOffset(context.Background(), s.o.Topic); err != nil && !errors.Is(err, context.Canceled) {
		s.o.Logger.Warn("rocketmqidem: cannot commit what is settled; it is tried again", "topic", s.o.Topic, "group", s.o.Group, "error", err)
	}
}
