package rocketmqidem

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Servers say how to reach a cluster.
type Servers struct {
	// NameServers are the host:port of the name servers. Required.
	NameServers []string
	// AccessKey and SecretKey sign requests, if the brokers ask for it. SecurityToken belongs to
	// temporary keys.
	AccessKey, SecretKey, SecurityToken string
	// TLS encrypts connections. The client has one such setting for all of its connections in the
	// process, and cannot check certificates.
	TLS bool
}

// Options name the topic and the group. Topic and Group are required; all other fields have a
// default.
type Options struct {
	// Topic is the topic.
	Topic string
	// Group is the consumer group. All processes that share the work use the same group. A new
	// group starts at the oldest message.
	Group string
	// DeadTopic is the topic of dead letters. Default: "%DLQ%" and the group, which is the topic
	// that the broker uses too.
	DeadTopic string
	// Tags selects messages: "paid || sent". Default all. All consumers of a group must use the
	// same tags: the brokers do not deliver what another consumer has left out.
	Tags string
	// Ordered keeps the order of a queue: one message in work at a time, and none passes one that
	// waits for a later try. Default: several at once, and others pass.
	Ordered bool
	// DelayLevels are the broker's levels of delay (messageDelayLevel), in rising order. Default:
	// those of a broker without that setting.
	DelayLevels []time.Duration
	// KeptFor is how long the brokers can keep a message after they got it; see [Source.HoldsFor].
	// Default retrysafe.Forever.
	KeptFor time.Duration
	// CommitEvery is the shortest time between two commits; default 250 ms, 10 ms to 10 s. Messages
	// that were settled and not committed are delivered again after a crash. Close does not wait
	// for it.
	CommitEvery time.Duration
	// Timeout is how long one call of the brokers may take. Default 10 s.
	Timeout time.Duration
	// Logger gets problems with the brokers. Default slog.Default(). It gets the errors of the
	// client too, which has one log for the process: the last source, dead-letter queue or
	// publisher that was opened determines where they go.
	Logger *slog.Logger
}

// defaultLevels are the levels of a broker without a setting.
var defaultLevels = []time.Duration{
	time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 3 * time.Minute,
	4 * time.Minute, 5 * time.Minute, 6 * time.Minute, 7 * time.Minute, 8 * time.Minute, 9 * time.Minute, 10 * time.Minute,
	20 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour,
}

func (given *Options) withDefaults() (Options, error) {
	var o Options
	if given != nil {
		o = *given
	}
	switch {
	case o.Topic == "" || o.Group == "":
		return o, errors.New("rocketmqidem: Options.Topic and Options.Group are required: they name the topic and the consumer group")
	case o.KeptFor < 0 || o.Timeout < 0:
		return o, errors.New("rocketmqidem: KeptFor and Timeout cannot be negative")
	case !slices.IsSorted(o.DelayLevels) || len(o.DelayLevels) > 0 && o.DelayLevels[0] <= 0:
		return o, errors.New("rocketmqidem: Options.DelayLevels are not in rising order; list the broker's messageDelayLevel")
	}
	o.DeadTopic = cmp.Or(o.DeadTopic, "%DLQ%"+o.Group)
	if o.DeadTopic == o.Topic {
		return o, errors.New("rocketmqidem: Options.DeadTopic and Options.Topic are the same; dead letters need a topic of their own")
	}
	o.CommitEvery = cmp.Or(o.CommitEvery, 250*time.Millisecond)
	if o.CommitEvery < 10*time.Millisecond || o.CommitEvery > 10*time.Second {
		return o, fmt.Errorf("rocketmqidem: CommitEvery is %v; use 10ms to 10s", o.CommitEvery)
	}
	if len(o.DelayLevels) == 0 {
		o.DelayLevels = defaultLevels
	}
	o.KeptFor = cmp.Or(o.KeptFor, retrysafe.Forever)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, nil
}

// takesAll reports whether messages of all tags are selected.
func (given *Options) takesAll() bool { return given.Tags == "" || given.Tags == "*" }

// retryTopic is the topic of the group's later tries. The broker knows it by this name.
func (given *Options) retryTopic() string { return "%RETRY%" + given.Group }

// walkGroup is the group whose offsets are the place of walks of the dead letters.
func (given *Options) walkGroup() string { return given.Group + "-retrysafe-dead" }

// delayLevel returns the number of the smallest level that is long enough, or of the longest one.
// Levels count from 1.
func (given *Options) delayLevel(after time.Duration) int {
	i, _ := slices.BinarySearch(given.DelayLevels, after)
	return min(i+1, len(given.DelayLevels))
}
