package kafkaidem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/backoff"
)

// TopicOptions configure the topic that [Create] creates. A nil *TopicOptions and zero fields use
// the brokers' defaults.
type TopicOptions struct {
	// Partitions is how many partitions the topic has, and Replicas how many copies of each.
	Partitions int32
	Replicas   int16
	// Retention is how long the topic keeps records: its retention.ms. Kafka deletes whole
	// segments, so Create also sets segment.ms to a seventh of it, and a record stays for up to a
	// seventh longer: 7 days keep it for up to 8. Records of finished messages must be kept for at
	// least that long; see mqidem.Holder. At least 7 s.
	Retention time.Duration
	// Configs are configurations of the topic, such as retention.ms.
	Configs map[string]string
}

// Create creates the topic and the topic of its dead letters. The latter has one partition, so that
// walks show the oldest first, and no time limit. If the configs have max.message.bytes, the topic
// of dead letters accepts messages that are larger by the size of a reason. If you create the
// topics yourself, let the topic of dead letters accept 40 KiB more. Create does not change
// existing topics. It returns when every running broker knows the topics: a broker learns of them a
// moment later than they are created, and until then it says that there is none. Several processes
// may call it at once. connection configures the connection.
func Create(ctx context.Context, topic *TopicOptions, options *Options, connection ...kgo.Opt) error {
	t := new(TopicOptions)
	if topic != nil {
		t = topic
	}
	o, err := options.withDefaults()
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(connection...)
	if err != nil {
		return fmt.Errorf("kafkaidem: the options of the connection do not fit; nothing was created: %w", err)
	}
	defer cl.Close()
	forever := "-1"
	remove := "delete"
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(o.Timeout.Milliseconds()) //nolint:gosec // seconds
	for _, name := range []string{o.Topic, o.DeadTopic} {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, cmp.Or(t.Partitions, -1), cmp.Or(t.Replicas, -1)
		configs, err := t.topicConfigs()
		if err != nil {
			return err
		}
		if name == o.DeadTopic {
			topic.NumPartitions = 1
			configs = map[string]*string{"retention.ms": &forever, "cleanup.policy": &remove}
			size, err := deadTopicMessageSize(t.Configs["max.message.bytes"])
			if err != nil {
				return err
			}
			if size != nil {
				configs["max.message.bytes"] = size
			}
		}
		for k, v := range configs {
			c := kmsg.NewCreateTopicsRequestTopicConfig()
			c.Name, c.Value = k, v
			topic.Configs = append(topic.Configs, c)
		}
		req.Topics = append(req.Topics, topic)
	}
	ctx, end := context.WithTimeout(ctx, o.Timeout)
	defer end()
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return fmt.Errorf("kafkaidem: cannot create the topics; some may be there: %w", err)
	}
	for _, topic := range resp.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("kafkaidem: cannot create the topic %s; what was created stays: %w", topic.Topic, err)
		}
	}
	if err := awaitTopics(ctx, cl, o.Topic, o.DeadTopic); err != nil {
		return fmt.Errorf("kafkaidem: the topics are created, and not every broker knows them yet; try again: %w", err)
	}
	return nil
}

// topicConfigs returns the configurations of the topic.
func (t *TopicOptions) topicConfigs() (map[string]*string, error) {
	configs := map[string]*string{}
	for k, v := range t.Configs {
		configs[k] = &v
	}
	switch {
	case t.Retention == 0:
		return configs, nil
	case t.Retention < 7*time.Second:
		return nil, fmt.Errorf("kafkaidem: TopicOptions.Retention is %v; use at least 7s, or leave it zero; nothing was created", t.Retention)
	case configs["retention.ms"] != nil || configs["segment.ms"] != nil:
		return nil, errors.New("kafkaidem: TopicOptions has Retention, and Configs has retention.ms or segment.ms; use one of them; nothing was created")
	}
	for name, d := range map[string]time.Duration{"retention.ms": t.Retention, "segment.ms": t.Retention / 7} {
		text := strconv.FormatInt(d.Milliseconds(), 10)
		configs[name] = &text
	}
	return configs, nil
}

// maxReasonSize is the largest size that a reason adds to a message, in bytes.
const maxReasonSize = 40 << 10

// deadTopicMessageSize returns the largest message of the topic of dead letters, given that of the
// topic.
func deadTopicMessageSize(size string) (*string, error) {
	if size == "" {
		return nil, nil //nolint:nilnil // both use the brokers' default
	}
	n, err := strconv.ParseInt(size, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("kafkaidem: max.message.bytes is no number of bytes; nothing was created: %w", err)
	}
	size = strconv.FormatInt(min(n+maxReasonSize, 1<<31-1), 10)
	return &size, nil
}

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
		return 0, fmt.Errorf("kafkaidem: cannot ask how long the topic keeps records; try again: %w", explainError(err))
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

// findTopic looks up a topic that must exist.
func findTopic(ctx context.Context, cl *kgo.Client, topic string, timeout time.Duration) (*topicInfo, error) {
	ctx, end := context.WithTimeout(ctx, timeout)
	defer end()
	return requestTopic(ctx, cl, topic)
}

// requestTopic asks the brokers for the partitions of a topic.
func requestTopic(ctx context.Context, cl *kgo.Client, topic string) (*topicInfo, error) {
	resp, err := metadataRequest(topic).RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	info := &topicInfo{name: topic}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return nil, explainError(err)
		}
		for _, p := range t.Partitions {
			info.parts = append(info.parts, p.Partition)
		}
	}
	slices.Sort(info.parts)
	return info, nil
}

// metadataRequest asks for topics and their partitions.
func metadataRequest(topics ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	return req
}

// awaitTopics waits until each broker that answers knows the topics, and the leaders of their
// partitions.
func awaitTopics(ctx context.Context, cl *kgo.Client, topics ...string) error {
	req := metadataRequest(topics...)
	all, err := req.RequestWith(ctx, cl)
	if err != nil {
		return explainError(err)
	}
	for _, b := range all.Brokers {
		for {
			err := askForTopics(ctx, cl.Broker(int(b.NodeID)), req)
			if _, answered := errors.AsType[*kerr.Error](err); !answered {
				break
			}
			if backoff.Pause(ctx, 20*time.Millisecond) != nil {
				return explainError(err)
			}
		}
	}
	for _, name := range topics {
		if err := awaitLeaders(ctx, cl, name); err != nil {
			return explainError(err)
		}
	}
	return ctx.Err()
}

// awaitLeaders waits until the leaders of a topic's partitions serve them. A broker names itself as
// a leader in its metadata before it does, and until then it answers that there is no such topic.
func awaitLeaders(ctx context.Context, cl *kgo.Client, name string) error {
	for {
		err := askLeaders(ctx, cl, name)
		switch answer, answered := errors.AsType[*kerr.Error](err); {
		case !answered:
			return ctx.Err()
		case !answer.Retriable:
			return err
		}
		if backoff.Pause(ctx, 20*time.Millisecond) != nil {
			return err
		}
	}
}

// longestAsk is how long Create waits for one answer, so that a broker that hangs does not hold it
// up.
const longestAsk = 2 * time.Second

// askLeaders returns the first error that a leader of the topic has.
func askLeaders(ctx context.Context, cl *kgo.Client, name string) error {
	ctx, end := context.WithTimeout(ctx, longestAsk)
	defer end()
	topic, err := requestTopic(ctx, cl, name)
	if err == nil {
		_, err = listOffsets(ctx, cl, topic, newestOffset)
	}
	return err
}

// askForTopics returns the first error that a broker has for the topics.
func askForTopics(ctx context.Context, b *kgo.Broker, req *kmsg.MetadataRequest) error {
	ctx, end := context.WithTimeout(ctx, longestAsk)
	defer end()
	answer, err := b.Request(ctx, req)
	resp, ok := answer.(*kmsg.MetadataResponse)
	if err != nil || !ok {
		return err
	}
	return firstTopicError(resp)
}

// firstTopicError returns the first error of a topic or a partition.
func firstTopicError(resp *kmsg.MetadataResponse) error {
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return err
		}
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

// The arguments of listOffsets.
const (
	newestOffset = -1
	oldestOffset = -2
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
				return nil, explainError(err)
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
		return explainError(err)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return explainError(err)
			}
		}
	}
	return nil
}
