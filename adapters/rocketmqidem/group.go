package rocketmqidem

import (
	"cmp"
	"context"
	"errors"
	"maps"
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
	rebalance func()
	shares    *shares
	// updating is held while the share changes and while the client gets offsets, for which it may
	// wait for a broker. So it gets none of a queue that has gone to another consumer.
	updating sync.Mutex
	// held returns the queues that the client has, and the group's offset. Below 0 there is none,
	// or the client could not read it.
	held func() map[primitive.MessageQueue]int64
}

// owned returns the queues of this consumer, with the group's offset. A queue of which the client's
// own read finds messages deleted stays with the client for 10 s. Then the client moves the group's
// offset past them, gives up the queue, and gets it again after up to 20 s.
func (c *groupClient) owned() map[primitive.MessageQueue]int64 {
	all := c.held()
	maps.DeleteFunc(all, func(id primitive.MessageQueue, _ int64) bool { return !c.shares.has(id) })
	return all
}

func newGroupClient(servers *Servers, group string) (*groupClient, error) {
	client := &groupClient{name: instanceName(), reads: new(sync.Map), shares: newShares()}
	opts := []consumer.Option{
		consumer.WithNsResolver(servers.resolver()), consumer.WithGroupName(group), consumer.WithInstance(client.name),
		consumer.WithConsumerModel(consumer.Clustering), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithPullBatchSize(1), consumer.WithPullInterval(time.Second), consumer.WithCredentials(servers.credentials()),
		consumer.WithStrategy(client.allocate),
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
	client.held = func() map[primitive.MessageQueue]int64 {
		all := map[primitive.MessageQueue]int64{}
		for id, q := range c.GetConsumerRunningInfo(false).MQTable {
			all[id] = q.CommitOffset
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

// shares are the queues that the group gives to this consumer.
type shares struct {
	mu      sync.Mutex
	byTopic map[string][]primitive.MessageQueue
	// begins has where our reads of a queue begin: at the group's offset. The client knows a later
	// one if its own read has passed messages that the broker deleted.
	begins map[primitive.MessageQueue]int64
}

func newShares() *shares {
	return &shares{byTopic: map[string][]primitive.MessageQueue{}, begins: map[primitive.MessageQueue]int64{}}
}

// allocate is the client's strategy. It keeps the queues while the broker knows no consumer of the
// group: it has just been started again, and has not heard of this one yet. It asks for the offsets
// of new queues before the client has them and reads them.
func (c *groupClient) allocate(group, id string, queues []*primitive.MessageQueue, consumers []string) (got []*primitive.MessageQueue) {
	if len(queues) == 0 {
		return nil
	}
	topic := queues[0].Topic
	if len(consumers) > 0 {
		c.updating.Lock()
		c.shares.set(topic, consumer.AllocateByAveragely(group, id, queues, consumers))
		c.updating.Unlock()
	}
	share, added := c.shares.ofTopic(topic)
	var asked sync.WaitGroup
	for _, q := range added {
		asked.Go(func() {
			if offset, err := c.pull.CurrentOffset(&q); err == nil && offset >= 0 {
				c.shares.setBegin(q, offset)
			}
		})
	}
	asked.Wait()
	for _, q := range share {
		got = append(got, &q)
	}
	return got
}

func (s *shares) set(topic string, queues []*primitive.MessageQueue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byTopic[topic] = nil
	for _, q := range queues {
		s.byTopic[topic] = append(s.byTopic[topic], *q)
	}
	maps.DeleteFunc(s.begins, func(id primitive.MessageQueue, _ int64) bool { return !slices.Contains(s.byTopic[id.Topic], id) })
}

// ofTopic returns the share of a topic, and those of its queues of which it is not known where they
// begin.
func (s *shares) ofTopic(topic string) (share, added []primitive.MessageQueue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.byTopic[topic] {
		if _, known := s.begins[id]; !known {
			added = append(added, id)
		}
	}
	return slices.Clone(s.byTopic[topic]), added
}

func (s *shares) has(id primitive.MessageQueue) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.byTopic[id.Topic], id)
}

// setBegin sets where a queue begins, as long as it is in the share.
func (s *shares) setBegin(id primitive.MessageQueue, offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.byTopic[id.Topic], id) {
		s.begins[id] = offset
	}
}

// begin returns where a queue begins. offset is what the client says; below 0 it knows nothing.
func (s *shares) begin(id primitive.MessageQueue, offset int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, known := s.begins[id]; known {
		return at
	}
	return offset
}

// updateOffsets gives the client offsets, which it sends with the next PersistOffset.
func (c *groupClient) updateOffsets(settled map[primitive.MessageQueue]int64) {
	c.updating.Lock()
	defer c.updating.Unlock()
	for id, offset := range settled {
		if c.shares.has(id) {
			_ = c.pull.UpdateOffset(&id, offset) // only keeps it; always nil
		}
	}
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
		dropped := s.dropQueues(owned)
		added := false
		for id, offset := range owned {
			if s.queues[id] == nil {
				q := newQueue(id, s.client.shares.begin(id, offset))
				s.queues[id], added = q, true
				s.tasks.Go(func() { s.readQueue(q) })
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

// dropQueues drops the queues that this consumer no longer has. If the group still gives them to
// this one, they come back, and then begin where they were: the client has moved the group's offset
// past deleted messages, which our own read is to find and report. The lock is held.
func (s *Source) dropQueues(owned map[primitive.MessageQueue]int64) (dropped bool) {
	for id, q := range s.queues {
		if _, ok := owned[id]; !ok {
			q.lost, dropped = true, true
			delete(s.queues, id)
			if q.known {
				s.client.shares.setBegin(id, q.settled)
			}
		}
	}
	return dropped
}

// reportLost reports messages that the broker has deleted. The lock is held.
func (s *Source) reportLost(id primitive.MessageQueue, messages int64) {
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

// readQueue reads a queue until it goes to another consumer or the source is closed.
func (s *Source) readQueue(q *queue) {
	for failed := 0; ; {
		offset, ok := s.awaitRoom(q)
		if !ok {
			return
		}
		r, err := s.client.pullFrom(s.ctx, q.id, offset)
		if err == nil {
			failed = 0
			if !s.findOffset(q) {
				s.queueRead(q, offset, r)
			}
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

// findOffset asks again for the group's offset of a queue that seems to have none: the client also
// says so if it did not reach the broker. It reports whether it has found one, to read from there.
func (s *Source) findOffset(q *queue) bool {
	s.mu.Lock()
	known := q.known
	s.mu.Unlock()
	if known {
		return false
	}
	offset, err := s.client.pull.CurrentOffset(&q.id)
	if err != nil || offset < 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q.settled, q.next, q.known = offset, offset, true
	return true
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

// queueRead queues what was read.
func (s *Source) queueRead(q *queue, offset int64, r *primitive.PullResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.lost {
		return
	}
	defer s.wakeWaiters()
	if missing := firstOffset(r) - offset; missing > 0 && q.known && (r.Status == primitive.PullOffsetIllegal || s.o.takesAll()) {
		s.reportLost(q.id, missing)
	}
	q.known = true
	if r.Status != primitive.PullOffsetIllegal {
		q.add(r.GetMessageExts(), r.NextBeginOffset)
		s.requestCommit()
		return
	}
	if r.NextBeginOffset < offset {
		s.o.Logger.Warn("rocketmqidem: the queue ends before the group's offset: it was created again, or its broker has lost its end", "topic", q.id.Topic,
			"group", s.o.Group, "queue", q.id.QueueId, "offset", offset, "begins at", r.NextBeginOffset)
		q.settled, q.handedOut = r.NextBeginOffset, nil
	}
	q.next = r.NextBeginOffset
	q.advance()
	s.requestCommit()
}

// firstOffset returns the offset of the first message that was read, or else that of the next read.
// The broker passes over messages whose file it has deleted, before it says that the queue begins
// after them.
func firstOffset(r *primitive.PullResult) int64 {
	if found := r.GetMessageExts(); r.Status == primitive.PullFound && len(found) > 0 {
		return found[0].QueueOffset
	}
	return r.NextBeginOffset
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
	s.client.updateOffsets(settled) // not under the lock: the client may wait for a broker here
	if err := s.client.pull.PersistOffset(context.Background(), s.o.Topic); err != nil && !errors.Is(err, context.Canceled) {
		s.o.Logger.Warn("rocketmqidem: cannot commit what is settled; it is tried again", "topic", s.o.Topic, "group", s.o.Group, "error", err)
	}
}
