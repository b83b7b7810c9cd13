package kafkaidem

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/retrysafe/retrysafe/mqidem"
)

// checkFetchedOffsets looks for records that the brokers have removed before the group had settled
// them, in the partitions that this consumer gets. resp has the offsets that the group has
// committed; the consumer begins there, or at the oldest record.
func (s *Source) checkFetchedOffsets(ctx context.Context, cl *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	topic, committed := &topicInfo{name: s.o.Topic}, map[int32]int64{}
	add := func(name string, n int32, at int64) {
		// New brokers name the topic by its number alone, and the group has only this one. Below
		// zero there is no offset.
		if _, seen := committed[n]; (name == s.o.Topic || name == "") && at >= 0 && !seen {
			topic.parts, committed[n] = append(topic.parts, n), at
		}
	}
	for _, t := range resp.Topics { // of old brokers
		for _, p := range t.Partitions {
			add(t.Topic, p.Partition, p.Offset)
		}
	}
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				add(t.Topic, p.Partition, p.Offset)
			}
		}
	}
	if len(committed) > 0 {
		s.reportMissing(ctx, cl, topic, committed)
	}
	return nil
}

// reportMissing reports partitions whose oldest record is after the committed offset.
func (s *Source) reportMissing(ctx context.Context, cl *kgo.Client, topic *topicInfo, committed map[int32]int64) {
	ctx, end := context.WithTimeout(ctx, s.o.Timeout)
	defer end()
	first, err := listOffsets(ctx, cl, topic, oldestOffset)
	if err != nil {
		s.o.Logger.Warn("kafkaidem: cannot ask whether the topic has lost records that were not settled", "topic", s.o.Topic, "group", s.o.Group, "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, at := range committed {
		if missing := first[n] - at; missing > 0 {
			s.reportLost(n, missing)
		}
		if p := s.parts[n]; p != nil && p.next < 0 {
			p.next = max(at, first[n])
		}
	}
	s.wakeWaiters()
}

// reportLost reports that records of a partition are lost. The lock is held.
func (s *Source) reportLost(n int32, records int64) {
	s.o.Logger.Error("kafkaidem: the topic has lost records that the group had not settled", slog.String("topic", s.o.Topic), slog.String("group", s.o.Group),
		slog.Int("partition", int(n)), slog.Int64("records", records))
	s.reports = append(s.reports, &lostDelivery{s.o.Topic, n, records})
}

// nextReport returns a report of lost records, or nil.
func (s *Source) nextReport() mqidem.Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.reports) == 0 {
		return nil
	}
	first := s.reports[0]
	s.reports = s.reports[1:]
	return first
}

// lostDelivery reports records of a partition that are lost.
type lostDelivery struct {
	topic     string
	partition int32
	records   int64 // at most: markers of transactions count too
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
	return fmt.Errorf("kafkaidem: the brokers have removed %d records of partition %d before the group had settled them; let the topic keep records for longer than the longest outage", d.records, d.partition)
}
