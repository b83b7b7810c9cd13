package kafkaidem

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/retrysafe/retrysafe/backoff"
)

// membership knows until when this consumer is a member of the group for sure, where the brokers
// assign the partitions. The client does not end a session by itself there, as it does where the
// consumers assign: while it is cut off, it cannot know that another consumer has its partitions.
type membership struct {
	session  time.Duration // set before there are deliveries
	mu       sync.Mutex
	lastBeat time.Time // when the last confirmed heartbeat was sent; zero: the consumers assign
}

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (m *membership) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, call kgo.BrokerE2E) {
	if key == int16(kmsg.ConsumerGroupHeartbeat) && call.Err() == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.lastBeat = time.Now().Add(-call.DurationE2E())
	}
}

// hasExpired reports whether the brokers may have removed this consumer from the group.
func (m *membership) hasExpired() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.lastBeat.IsZero() && time.Since(m.lastBeat) > m.session
}

// addPartitions adds partitions that this consumer gets.
func (s *Source) addPartitions(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range topics[s.o.Topic] {
		s.parts[n] = newPartition(n)
	}
	s.wakeWaiters()
}

// handOverPartitions hands over partitions. The group waits until it returns.
func (s *Source) handOverPartitions(ctx context.Context, _ *kgo.Client, topics map[string][]int32) {
	gone := topics[s.o.Topic]
	if len(gone) == 0 {
		return
	}
	end := time.NewTimer(s.o.Handover)
	defer end.Stop()
	for late := s.isClosed(); !late; {
		busy, changed := s.stopHandingOut(gone)
		if busy == 0 {
			break
		}
		select {
		case <-changed:
		case <-end.C:
			late = true
			s.o.Logger.Warn("kafkaidem: a partition goes to another consumer while messages of it are under way; they are redelivered there",
				"topic", s.o.Topic, "group", s.o.Group, "messages", busy)
		case <-s.ended:
			late = true
		}
	}
	ctx, through := context.WithTimeout(ctx, s.o.Timeout)
	defer through()
	if err := s.commit(ctx); err != nil && !errors.Is(err, errNothingToCommit) {
		s.o.Logger.Warn("kafkaidem: cannot commit what is settled of partitions that go; it is delivered again", "topic", s.o.Topic, "group", s.o.Group, "error", explainError(err))
	}
	s.dropPartitions(gone)
}

// dropLostPartitions drops partitions that another consumer may have already.
func (s *Source) dropLostPartitions(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
	if gone := topics[s.o.Topic]; len(gone) > 0 {
		s.dropPartitions(gone)
	}
}

// stopHandingOut stops handing out records of partitions, and returns how many are in work.
func (s *Source) stopHandingOut(gone []int32) (busy int, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range gone {
		if p := s.parts[n]; p != nil {
			p.leaving = true
			busy += p.heldCount
		}
	}
	return busy, s.changed
}

// dropPartitions forgets partitions; nil means all. Their unsettled messages become stale.
func (s *Source) dropPartitions(gone []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if gone == nil {
		for n := range s.parts {
			gone = append(gone, n)
		}
	}
	for _, n := range gone {
		p := s.parts[n]
		if p == nil {
			continue
		}
		p.lost = true
		if p.paused { // otherwise it would still be paused when it comes back
			s.cl.ResumeFetchPartitions(map[string][]int32{s.o.Topic: {n}})
		}
		delete(s.parts, n)
	}
	s.wakeWaiters()
}

// commitLoop commits after messages were settled: one commit for all since the last one, and
// not too often, since the coordinator writes each commit to a topic.
func (s *Source) commitLoop() {
	for failed := 0; ; {
		select {
		case <-s.commitNeeded:
		case <-s.ctx.Done():
			return
		}
		ctx, end := context.WithTimeout(s.ctx, s.o.Timeout)
		err := s.commit(ctx)
		end()
		if err == nil || errors.Is(err, errNothingToCommit) {
			failed = 0
			_ = backoff.Pause(s.ctx, s.o.CommitEvery)
			continue
		}
		if failed++; failed > 1 && s.ctx.Err() == nil {
			s.o.Logger.Warn("kafkaidem: cannot commit what is settled; it is tried again", "topic", s.o.Topic, "group", s.o.Group, "error", explainError(err))
		}
		wait, _ := backoff.Backoff{MaxAttempts: failed + 2, MinWait: 50 * time.Millisecond, MaxWait: 5 * time.Second}.Next(s.ctx, failed, 10*time.Millisecond)
		_ = backoff.Pause(s.ctx, wait)
		s.requestCommit()
	}
}

func (s *Source) requestCommit() {
	select {
	case s.commitNeeded <- struct{}{}:
	default:
	}
}

var errNothingToCommit = errors.New("there is nothing to commit")

// commit commits the settled offset of each partition.
func (s *Source) commit(ctx context.Context) error {
	s.committing.Lock() // an older offset must not follow a newer one
	defer s.committing.Unlock()
	s.mu.Lock()
	offsets, of := map[int32]kgo.EpochOffset{}, map[int32]*partition{}
	for n, p := range s.parts {
		if p.hasUncommitted() {
			offsets[n], of[n] = p.settled, p
		}
	}
	s.mu.Unlock()
	if len(offsets) == 0 {
		return errNothingToCommit
	}
	var failed error
	s.cl.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{s.o.Topic: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			if failed = err; err != nil {
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, t := range resp.Topics {
				for _, one := range t.Partitions {
					if err := kerr.ErrorForCode(one.ErrorCode); err != nil {
						failed = err
					} else if p := of[one.Partition]; p != nil {
						p.committed = offsets[one.Partition]
					}
				}
			}
		})
	return failed
}
