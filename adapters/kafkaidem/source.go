package kafkaidem

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/retrysafe/retrysafe/backoff"
	"github.com/retrysafe/retrysafe/mqidem"
)

// Source is a mqidem.Source and a mqidem.Holder in a consumer group. It can be used concurrently.
type Source struct {
	cl          *kgo.Client
	o           Options
	deadLetters *DeadLetters
	membership  *membership

	mu        sync.Mutex
	parts     map[int32]*partition
	nextStart int           // where the next search for a record starts
	changed   chan struct{} // closed and replaced at each change
	reports   []*lostDelivery

	committing   sync.Mutex
	commitNeeded chan struct{}

	ended  chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	once   sync.Once
}

var (
	_ mqidem.Source  = (*Source)(nil)
	_ mqidem.Holder  = (*Source)(nil)
	_ mqidem.Limited = (*Source)(nil)
)

// Open joins the group on its own connections, which it makes with the options: the brokers, TLS,
// SASL, the group's timeouts. A fetch waits 100 ms for records unless FetchMaxWait says otherwise.
// Open returns an error if one of the topics is missing; see [Create]. The client reconnects by
// itself, and sends the group's heartbeats however long work takes. Close the source at the end.
func Open(ctx context.Context, options *Options, connection ...kgo.Opt) (*Source, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Source{o: o, membership: new(membership), parts: map[int32]*partition{}, changed: make(chan struct{}), commitNeeded: make(chan struct{}, 1), ended: make(chan struct{})}
	opts := append([]kgo.Opt{kgo.FetchMaxWait(fetchWait), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, deadLetterOpts(o.Timeout, connection)...)
	s.cl, err = kgo.NewClient(append(opts,
		kgo.ConsumerGroup(o.Group), kgo.ConsumeTopics(o.Topic), kgo.DisableAutoCommit(), kgo.WithHooks(s.membership),
		// Between a poll and AllowRebalance no partition comes or goes, so the records that were
		// read belong to partitions of this consumer.
		kgo.BlockRebalanceOnPoll(),
		kgo.OnOffsetsFetched(s.checkFetchedOffsets),
		kgo.OnPartitionsAssigned(s.addPartitions), kgo.OnPartitionsRevoked(s.handOverPartitions), kgo.OnPartitionsLost(s.dropLostPartitions),
	)...)
	if err != nil {
		return nil, fmt.Errorf("kafkaidem: the options of the connection do not fit: %w", err)
	}
	s.membership.session, _ = s.cl.OptValue(kgo.SessionTimeout).(time.Duration)
	s.deadLetters = newDeadLetters(s.cl, o, connection)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, topic := range []string{o.Topic, o.DeadTopic} {
		if _, err := findTopic(ctx, s.cl, topic, o.Timeout); err != nil {
			s.cancel()
			s.cl.CloseAllowingRebalance()
			return nil, fmt.Errorf("kafkaidem: cannot open the topic %s; Create makes it: %w", topic, err)
		}
	}
	s.tasks.Go(s.pollRecords)
	s.tasks.Go(s.commitLoop)
	return s, nil
}

// Receive implements mqidem.Source. It only returns the error of its context, or that of a closed
// source. Problems with the brokers are logged, and the source tries again. A delivery that is a
// mqidem.Lost reports records of a partition that the brokers have removed before the group had
// settled them: the source looks when it gets the partition, and whenever it reads.
func (s *Source) Receive(ctx context.Context) (mqidem.Delivery, error) {
	for {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if s.isClosed() {
			return nil, mqidem.ErrSourceClosed
		}
		if lost := s.nextReport(); lost != nil {
			return lost, nil
		}
		d, at, changed := s.takeRecord()
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

// takeRecord hands out a record, if there is one, from each partition in turn.
func (s *Source) takeRecord() (d *delivery, at time.Time, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	order := s.orderedPartitions()
	for i := range order {
		p := order[(i+s.nextStart)%len(order)]
		w, due := p.nextRecord(now, !s.o.Unordered)
		if w == nil {
			if !due.IsZero() && (at.IsZero() || due.Before(at)) {
				at = due
			}
			continue
		}
		s.nextStart++
		p.heldCount++
		w.deliveries++
		if p.paused && !p.isFull(2) {
			p.paused = false
			s.cl.ResumeFetchPartitions(map[string][]int32{s.o.Topic: {p.number}})
		}
		return newDelivery(s, p, w), at, nil
	}
	return nil, at, s.changed
}

// Full implements [mqidem.Limited]: the queued records wait for records that a consumer holds.
func (s *Source) Full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	waits := false
	for _, p := range s.parts {
		switch {
		case len(p.queue) == 0 || p.leaving || p.lost:
		case p.heldCount == 0 || s.o.Unordered:
			return false
		default:
			waits = true
		}
	}
	return waits
}

// orderedPartitions returns the partitions, always in the same order. The lock is held.
func (s *Source) orderedPartitions() []*partition {
	all := make([]*partition, 0, len(s.parts))
	for n := int32(0); len(all) < len(s.parts); n++ {
		if p := s.parts[n]; p != nil {
			all = append(all, p)
		}
	}
	return all
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

// pollRecords reads records until the source is closed.
func (s *Source) pollRecords() {
	for failed := 0; ; {
		got := s.cl.PollRecords(s.ctx, mostQueued)
		if s.ctx.Err() != nil || got.IsClientClosed() {
			s.cl.AllowRebalance()
			return
		}
		s.mu.Lock()
		got.EachPartition(s.queueRecords)
		s.wakeWaiters()
		s.mu.Unlock()
		s.cl.AllowRebalance()
		var bad error
		got.EachError(func(_ string, _ int32, err error) { bad = err })
		if bad == nil {
			failed = 0
			continue
		}
		failed++
		s.o.Logger.Warn("kafkaidem: cannot read records; it is tried again", "topic", s.o.Topic, "group", s.o.Group, "error", explainError(bad))
		wait, _ := backoff.Backoff{MaxAttempts: failed + 2, MaxWait: 5 * time.Second}.Next(s.ctx, failed, 0)
		_ = backoff.Pause(s.ctx, wait)
	}
}

// queueRecords queues what was read of a partition. The lock is held.
func (s *Source) queueRecords(read kgo.FetchTopicPartition) {
	if len(read.Records) == 0 {
		return
	}
	p := s.parts[read.Partition]
	if p == nil { // does not happen; a dropped record would be committed unseen
		p = newPartition(read.Partition)
		s.parts[read.Partition] = p
	}
	// The client goes on at the oldest record if the one that it wants is gone.
	if missing := min(read.LogStartOffset, read.Records[0].Offset) - p.next; p.next >= 0 && missing > 0 {
		s.reportLost(p.number, missing)
	}
	for _, r := range read.Records {
		p.add(r)
	}
	if !p.paused && p.isFull(1) {
		p.paused = true
		s.cl.PauseFetchPartitions(map[string][]int32{s.o.Topic: {p.number}})
	}
}

// Close commits settled messages, leaves the group, and ends all that the source started. Other
// consumers get the unsettled messages. Close returns after the timeout at the latest, and never
// returns an error. It can be called again. Settling a message after Close returns ErrStale.
func (s *Source) Close() error {
	s.once.Do(func() {
		close(s.ended)
		s.cancel()
		s.tasks.Wait()
		ctx, end := context.WithTimeout(context.Background(), s.o.Timeout)
		defer end()
		if err := s.commit(ctx); err != nil && !errors.Is(err, errNothingToCommit) {
			s.o.Logger.Warn("kafkaidem: cannot commit what is settled; it is delivered again", "topic", s.o.Topic, "group", s.o.Group, "error", explainError(err))
		}
		_ = s.cl.LeaveGroupContext(ctx)
		s.cl.CloseAllowingRebalance()
		s.dropPartitions(nil)
	})
	return nil
}
