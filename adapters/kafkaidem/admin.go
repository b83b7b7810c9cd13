package kafkaidem

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/retrysafe/retrysafe"
)

// HoldsFor implements mqidem.Holder: the topic's retention.ms and segment.ms together, since Kafka
// deletes whole segments when the last record in them is old enough. It returns retrysafe.Forever
// for a topic that deletes nothing: without a limit, or compacted only. It does not know what
// retention.bytes removes earlier.
func (s *Source) HoldsFor(ctx context.Context) (time.Duration, error) {
	ctx, end := context.WithTimeout(ctx, s.o.Timeout)
	defer end()
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, s.o.Topic, []string{"retention.ms", "segment.ms", "cleanup.policy"}
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, s.cl)
	if err == nil && len(resp.Resources) != 1 {
		err = kerr.UnknownTopicOrPartition
	}
	if err == nil {
		err = kerr.ErrorForCode(resp.Resources[0].ErrorCode)
	}
	if err != nil {
		return 0, fmt.Errorf("kafkaidem: cannot ask how long the topic keeps records; try again: %w", explain(err))
	}
	return holdsFor(resp.Resources[0].Configs)
}

func holdsFor(configs []kmsg.DescribeConfigsResponseResourceConfig) (time.Duration, error) {
	told := map[string]int64{} // milliseconds
	for _, c := range configs {
		switch {
		case c.Value == nil:
		case c.Name == "cleanup.policy":
			if !strings.Contains(*c.Value, "delete") {
				return retrysafe.Forever, nil
			}
		default:
			ms, err := strconv.ParseInt(*c.Value, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("kafkaidem: the brokers say something else than a number of milliseconds: %w", err)
			}
			told[c.Name] = ms
		}
	}
	keeps, tells := told["retention.ms"]
	if !tells {
		return 0, nil
	}
	segment := max(told["segment.ms"], 0)
	const most = int64(retrysafe.Forever / time.Millisecond)
	if keeps < 0 || keeps > most-min(segment, most) {
		return retrysafe.Forever, nil
	}
	return time.Duration(keeps+segment) * time.Millisecond, nil
}

// topicInfo is what the brokers report of a topic.
type topicInfo struct {
	name  string
	parts []int32
}

// find looks up a topic that must exist.
func find(ctx context.Context, cl *kgo.Client, topic string, timeout time.Duration) (*topicInfo, error) {
	ctx, end := context.WithTimeout(ctx, timeout)
	defer end()
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	info := &topicInfo{name: topic}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return nil, explain(err)
		}
		for _, p := range t.Partitions {
			info.parts = append(info.parts, p.Partition)
		}
	}
	slices.Sort(info.parts)
	return info, nil
}

// The arguments of listOffsets.
const (
	newest = -1
	oldest = -2
)

// listOffsets returns an offset of each partition: of the oldest record, or after the newest.
func listOffsets(ctx context.Context, cl *kgo.Client, topic *topicInfo, which int64) (map[int32]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic.name
	for _, n := range topic.parts {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = n, which
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	found := map[int32]int64{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, explain(err)
			}
			found[p.Partition] = p.Offset
		}
	}
	return found, nil
}

// deleteBefore deletes all records of a partition before an offset.
func deleteBefore(ctx context.Context, cl *kgo.Client, topic string, n int32, offset int64, timeout time.Duration) error {
	ctx, end := context.WithTimeout(ctx, timeout)
	defer end()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = int32(timeout.Milliseconds()) //nolint:gosec // seconds
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = topic
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = n, offset
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return explain(err)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return explain(err)
			}
		}
	}
	return nil
}
