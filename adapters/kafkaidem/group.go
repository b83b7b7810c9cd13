package kafkaidem

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/retrysafe/retrysafe/backoff"
)

// assigned adds partitions that this consumer gets.
func (s *Source) assigned(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range topics[s.o.Topic] {
		s.parts[n] = newPartition(n)
	}
	s.wake()
}

// revoked hands over partitions. The group waits until it returns.
func (s *Source) revoked(ctx context.Context, _ *kgo.Client, topics map[string][]int32) {
	gone := topics[s.o.Topic]
	if len(gone) == 0 {
		return
	}
	end := time.NewTimer(s.o.Handover)
	defer end.Stop()
	for late := s.closed(); !late; {
		busy, changed := s.leave(gone)
		if busy == 0 {
			break
		}
		select {
		case <-changed:
		case <-end.C:
			late = true
			s.o.Logger.Warn("kafkaidem: a partition goes to another consumer while messages of it are under way; they come again there",
				"topic", s.o.Topic, "group", s.o.Group, "messages", busy)
		case <-s.ended:
			late = true
		}
	}
	ctx, through := context.WithTimeout(ctx, s.o.Timeout)
	defer through()
	if err := s.commit(ctx); err != nil && !errors.Is(err, errNothing) {
		s.o.Logger.Warn("kafkaidem: cannot commit what is settled of partitions that go; it is delivered again", "topic", s.o.Topic, "group", s.o.Group, "error", explain(err))
	}
	s.drop(gone)
}

// lost drops partitions that another consumer may have already.
func (s *Source) lost(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
	if gone := topics[s.o.Topic]; len(gone) > 0 {
		s.drop(gone)
	}
}

// leave stops handing out records of partitions, and returns how many are in work.
func (s *Source) leave(gone []int32) (busy int, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range gone {
		if p := s.parts[n]; p != nil {
			p.leaving = true
			busy += p.busy
		}
	}
	return busy, s.changed
}

// drop forgets partitions; nil means all. Their unsettled messages become stale.
func (s *Source) drop(gone []int32) {
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
	s.wake()
}

// keepCommitting commits after messages were settled: one commit for all since the last one, and
// not too often, since the coordinator writes each commit to a topic.
func (s *Source) keepCommitting() {
	for failed := 0; ; {
		select {
		case <-s.dirty:
		case <-s.ctx.Done():
			return
		}
		ctx, end := context.WithTimeout(s.ctx, s.o.Timeout)
		err := s.commit(ctx)
		end()
		if err == nil || errors.Is(err, errNothing) {
			failed = 0
			_ = backoff.Pause(s.ctx, s.o.CommitEvery)
			continue
		}
		if failed++; failed > 1 && s.ctx.Err() == nil {
			s.o.Logger.Warn("kafkaidem: cannot commit what is settled; it is tried again", "topic", s.o.Topic, "group", s.o.Group, "error", explain(err))
		}
		wait, _ := backoff.Backoff{MaxAttempts: failed + 2, MinWait: 50 * time.Millisecond, MaxWait: 5 * time.Second}.Next(s.ctx, failed, 10*time.Millisecond)
		_ = backoff.Pause(s.ctx, wait)
		s.markDirty()
	}
}

func (s *Source) markDirty() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

var errNothing = errors.New("there is nothing to commit")

// commit commits the settled offset of each partition.
func (s *Source) commit(ctx context.Context) error {
	s.committing.Lock() // an older offset must not follow a newer one
	defer s.committing.Unlock()
	s.mu.Lock()
	offsets, of := map[int32]kgo.EpochOffset{}, map[int32]*partition{}
	for n, p := range s.parts {
		if p.dirty() {
			offsets[n], of[n] = p.settled, p
		}
	}
	s.mu.Unlock()
	if len(offsets) == 0 {
		return errNothing
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
