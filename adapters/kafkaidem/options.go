package kafkaidem

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"
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
