package rocketmqidem

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/retrysafe/retrysafe/mqidem"
)

// Source is a mqidem.Source and a mqidem.Holder in a consumer group. It can be used concurrently.
type Source struct {
	o           Options
	client      *groupClient
	deadLetters *DeadLetters

	mu        sync.Mutex
	queues    map[primitive.MessageQueue]*queue
	order     []*queue
	nextStart int           // where the next search for a message starts
	changed   chan struct{} // closed and replaced at each change
	reports   []*lostDelivery

	commitNeeded chan struct{}
	ended        chan struct{}
	ctx          context.Context
	cancel       context.CancelFunc
	tasks        sync.WaitGroup
	once         sync.Once
}

var (
	_ mqidem.Source  = (*Source)(nil)
	_ mqidem.Holder  = (*Source)(nil)
	_ mqidem.Limited = (*Source)(nil)
)

// Open joins the group on its own connections. It returns an error if one of the topics is missing;
// see [Create]. The client reconnects by itself. Close the source at the end.
func Open(ctx context.Context, servers *Servers, options *Options) (*Source, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := servers.check(); err != nil {
		return nil, err
	}
	sharedLog.use(o.Logger)
	if err := checkTopics(ctx, servers, o.Timeout, o.Topic, o.DeadTopic); err != nil {
		return nil, err
	}
	s := newSource(o)
	s.deadLetters, err = openDeadLetters(servers, o)
	if err != nil {
		return nil, err
	}
	s.client, err = joinGroup(ctx, servers, &o)
	if err != nil {
		_ = s.deadLetters.Close()
		return nil, err
	}
	s.start()
	return s, nil
}

func newSource(o Options) *Source {
	return &Source{
		o: o, queues: map[primitive.MessageQueue]*queue{},
		changed: make(chan struct{}), commitNeeded: make(chan struct{}, 1), ended: make(chan struct{}),
	}
}

func (s *Source) start() {
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.tasks.Go(s.watchQueues)
	s.tasks.Go(s.commitLoop)
}

// joinGroup starts a client that is a consumer of the group.
func joinGroup(ctx context.Context, servers *Servers, o *Options) (*groupClient, error) {
	c, err := newGroupClient(servers, o.Group)
	if err == nil {
		err = c.pull.Subscribe(o.Topic, consumer.MessageSelector{Type: consumer.TAG, Expression: o.Tags})
	}
	if err != nil {
		return nil, fmt.Errorf("rocketmqidem: the options do not fit the client: %w", err)
	}
	if err := c.pull.Start(); err != nil {
		return nil, fmt.Errorf("rocketmqidem: cannot join the group %s: %w", o.Group, err)
	}
	// The broker creates the topic of later tries when it first hears of the group, and the client
	// would look for it again after 30 s only.
	for end := time.Now().Add(o.Timeout); ; {
		if _, err = c.pull.GetTopicRouteInfo(o.retryTopic()); err == nil {
			c.rebalance()
			return c, nil
		}
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(100 * time.Millisecond):
			if time.Now().Before(end) {
				continue
			}
		}
		c.close()
		return nil, fmt.Errorf("rocketmqidem: the topic of later tries, %s, is not there; Create makes it: %w", o.retryTopic(), err)
	}
}

// HoldsFor implements mqidem.Holder. The broker does not tell how long it keeps messages, so it is
// Options.KeptFor. The broker deletes a file of 1 GB (mappedFileSizeCommitLog) at a time, when
// nothing was written to it for fileReservedTime (72 hours by default), once a day (deleteWhen),
// and keeps the last one. So a message can stay for that time, a day, and the time in which the
// broker writes 1 GB.
func (s *Source) HoldsFor(context.Context) (time.Duration, error) { return s.o.KeptFor, nil }

// Receive implements mqidem.Source. It only returns the error of its context, or that of a closed
// source. Problems with the brokers are logged, and the source tries again. A delivery that is a
// mqidem.Lost reports messages of a queue that the broker has deleted before the group had settled
// them. With Options.Tags, messages of a file that was deleted just before the read are taken for
// messages with other tags.
func (s *Source) Receive(ctx context.Context) (mqidem.Delivery, error) {
	for {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if s.isClosed() {
			return nil, mqidem.ErrSourceClosed
		}
		d, at, changed := s.takeRecord()
		if taken, ok := d.(*delivery); ok { // outside the lock: it may decompress a body
			taken.message = taken.record.readMessage()
		}
		if d != nil {
			return d, nil
		}
		if err := s.waitForChange(ctx, at, changed); err != nil {
			return nil, err
		}
	}
}

// waitForChange waits for a change or until a time.
func (s *Source) waitForChange(ctx context.Context, at time.Time, changed <-chan struct{}) error {
	var due <-chan time.Time
	if !at.IsZero() {
		t := time.NewTimer(time.Until(at))
		defer t.Stop()
		due = t.C
	}
	select {
	case <-due:
	case <-changed:
	case <-s.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// takeRecord hands out a message, if there is one, from each queue in turn.
func (s *Source) takeRecord() (d mqidem.Delivery, at time.Time, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		return nil, at, s.changed
	}
	if len(s.reports) > 0 {
		lost := s.reports[0]
		s.reports = s.reports[1:]
		return lost, at, nil
	}
	now := time.Now()
	for i := 0; i < len(s.order); {
		q := s.order[(i+s.nextStart)%len(s.order)]
		w, due := q.nextRecord(now, s.o.Ordered)
		if w == nil {
			if !due.IsZero() && (at.IsZero() || due.Before(at)) {
				at = due
			}
			i++
			continue
		}
		if w.due.IsZero() { // it does not wait in this process yet
			if wait := time.Until(s.dueTime(w.record)); wait > 0 {
				s.postpone(q, w, wait)
				continue
			}
		}
		s.nextStart++
		q.heldCount++
		w.deliveries++
		return newDelivery(s, q, w), at, nil
	}
	return nil, at, s.changed
}

// postpone is for a later try that the broker has delivered too early: its levels of delay are
// others, or the delay is longer than the longest. The lock is held.
func (s *Source) postpone(q *queue, w *handedRecord, wait time.Duration) {
	if wait < 2*time.Second || s.o.Ordered {
		w.due = time.Now().Add(wait)
		q.laterTries = append(q.laterTries, w)
		return
	}
	q.heldCount++
	d := newDelivery(s, q, w)
	s.tasks.Go(func() {
		ctx, end := context.WithTimeout(s.ctx, s.o.Timeout)
		defer end()
		d.message = w.readMessage()
		_ = d.retry(ctx, wait, 0) // it waits in this process if it cannot be sent
	})
}

// Full implements [mqidem.Limited]: the messages that were read wait for messages that a consumer
// holds.
func (s *Source) Full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	waits := false
	for _, q := range s.order {
		switch {
		case len(q.read) == 0:
		case q.heldCount == 0 || !s.o.Ordered:
			return false
		default:
			waits = true
		}
	}
	return waits
}

// wakeWaiters wakes all waiters. The lock is held.
func (s *Source) wakeWaiters() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Source) isClosed() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// Close commits settled messages, leaves the group, and ends all that the source started. Other
// consumers get the unsettled messages. Close returns after the timeout at the latest, and never
// returns an error. It can be called again. Settling a message after Close returns ErrStale.
func (s *Source) Close() error {
	s.once.Do(func() {
		s.mu.Lock() // what hands out messages starts tasks
		close(s.ended)
		s.mu.Unlock()
		s.cancel()
		through := make(chan struct{})
		go func() { // the calls of the client know no context
			defer close(through)
			s.tasks.Wait()
			s.commit()
			s.client.awaitCommits(s.brokersOfQueues(), s.o.Topic)
			s.client.close()
			_ = s.deadLetters.Close()
		}()
		select {
		case <-through:
		case <-time.After(s.o.Timeout):
			s.o.Logger.Warn("rocketmqidem: the client does not end in time; what was settled last may be delivered again", "topic", s.o.Topic, "group", s.o.Group)
		}
		s.mu.Lock()
		for _, q := range s.order {
			q.lost = true
		}
		s.mu.Unlock()
	})
	return nil
}

// lostDelivery reports messages of a queue that are lost.
type lostDelivery struct {
	topic    string
	queue    int
	messages int64
}

var _ mqidem.Lost = (*lostDelivery)(nil)

func (d *lostDelivery) Message() *mqidem.Message {
	return &mqidem.Message{Source: d.topic, Headers: map[string][]byte{}}
}
func (*lostDelivery) Ack(context.Context) error                  { return nil }
func (*lostDelivery) Retry(context.Context, time.Duration) error { return nil }
func (*lostDelivery) Dead(context.Context, mqidem.Reason) error  { return nil }

// Lost implements mqidem.Lost.
func (d *lostDelivery) Lost() error {
	return fmt.Errorf("rocketmqidem: the broker has deleted %d messages of queue %d before the group had settled them; let it keep messages for longer than the longest outage", d.messages, d.queue)
}
