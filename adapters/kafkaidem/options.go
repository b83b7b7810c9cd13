package kafkaidem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Options name the topic and the group. Topic and Group are required; all other fields have a
// default.
type Options struct {
	// Topic is the topic.
	Topic string
	// Group is the consumer group. All processes that share the work use the same group. A new
	// group starts at the oldest record.
	Group string
	// DeadTopic is the topic of dead letters. Default: the topic and ".dead". Groups of one topic
	// that do different work each need their own. A program that removes messages from it, such as
	// a redriver, needs the ACLs Delete, Write and Read on it.
	DeadTopic string
	// Unordered allows several messages of a partition to be in work at once, and lets others pass
	// one that waits for a later try. Default: one at a time, in order.
	Unordered bool
	// Handover is how long messages may still be in work when their partition goes to another
	// consumer. Default 10 s; it must be well below the group's rebalance timeout
	// (kgo.RebalanceTimeout, 60 s).
	Handover time.Duration
	// CommitEvery is the shortest time between two commits; default 250 ms, 10 ms to 10 s. The
	// first commit is made at once. Messages that were settled and not committed are delivered
	// again after a crash. A partition that goes to another consumer and Close do not wait for it.
	CommitEvery time.Duration
	// Timeout is how long one call of the brokers may take. Default 10 s.
	Timeout time.Duration
	// Logger gets problems with the brokers. Default slog.Default().
	Logger *slog.Logger
}

func (given *Options) withDefaults() (Options, error) {
	var o Options
	if given != nil {
		o = *given
	}
	switch {
	case o.Topic == "" || o.Group == "":
		return o, errors.New("kafkaidem: Options.Topic and Options.Group are required: they name the topic and the consumer group")
	case o.Handover < 0 || o.Timeout < 0:
		return o, errors.New("kafkaidem: Handover and Timeout cannot be negative")
	}
	o.DeadTopic = cmp.Or(o.DeadTopic, o.Topic+".dead")
	if o.DeadTopic == o.Topic {
		return o, errors.New("kafkaidem: Options.DeadTopic and Options.Topic are the same; dead letters need a topic of their own")
	}
	o.CommitEvery = cmp.Or(o.CommitEvery, 250*time.Millisecond)
	if o.CommitEvery < 10*time.Millisecond || o.CommitEvery > 10*time.Second {
		return o, fmt.Errorf("kafkaidem: CommitEvery is %v; use 10ms to 10s", o.CommitEvery)
	}
	o.Handover = cmp.Or(o.Handover, 10*time.Second)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, nil
}

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
// existing topics. Several processes may call it at once. connection configures the connection.
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
		configs, err := t.configs()
		if err != nil {
			return err
		}
		if name == o.DeadTopic {
			topic.NumPartitions = 1
			configs = map[string]*string{"retention.ms": &forever, "cleanup.policy": &remove}
			size, err := room(t.Configs["max.message.bytes"])
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
	return nil
}

// configs returns the configurations of the topic.
func (t *TopicOptions) configs() (map[string]*string, error) {
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

// ofReason is the largest size that a reason adds to a message, in bytes.
const ofReason = 40 << 10

// room returns the largest message of the topic of dead letters, given that of the topic.
func room(size string) (*string, error) {
	if size == "" {
		return nil, nil //nolint:nilnil // both use the brokers' default
	}
	n, err := strconv.ParseInt(size, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("kafkaidem: max.message.bytes is no number of bytes; nothing was created: %w", err)
	}
	size = strconv.FormatInt(min(n+ofReason, 1<<31-1), 10)
	return &size, nil
}
