package rocketmqidem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/rocketmq-client-go/v2/admin"
	clienterrors "github.com/apache/rocketmq-client-go/v2/errors"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/retrysafe/retrysafe/backoff"
)

// TopicOptions configure the topics that [Create] creates.
type TopicOptions struct {
	// Brokers are the host:port of the brokers that get the topics: the masters. Required, since
	// the client cannot ask for them.
	Brokers []string
	// Queues is how many queues the topic has on each broker. Default 4. At most so many consumers
	// of a group get messages.
	Queues int
}

// Create creates the topic, the topic of the group's later tries, and the topic of its dead
// letters. The latter has one queue, so that walks show the oldest first. Create does not change
// existing topics. Several processes may call it at once. The broker creates the groups
// (autoCreateSubscriptionGroup): that of the options, and one with "-retrysafe-dead" after its
// name, which is the place of walks.
func Create(ctx context.Context, servers *Servers, topic *TopicOptions, options *Options) error {
	o, err := options.withDefaults()
	if err != nil {
		return err
	}
	if err := servers.check(); err != nil {
		return err
	}
	if topic == nil || len(topic.Brokers) == 0 || topic.Queues < 0 {
		return errors.New("rocketmqidem: TopicOptions.Brokers is required: the host:port of the brokers that get the topics")
	}
	sharedLog.use(o.Logger)
	a, err := newAdmin(servers)
	if err != nil {
		return err
	}
	defer a.Close()
	ctx, end := context.WithTimeout(ctx, o.Timeout)
	defer end()
	for name, queues := range map[string]int{o.Topic: cmp.Or(topic.Queues, 4), o.retryTopic(): 1, o.DeadTopic: 1} {
		if hasTopic(ctx, a, name) == nil {
			continue
		}
		for _, broker := range topic.Brokers {
			if err := createTopic(ctx, a, name, broker, queues); err != nil {
				return fmt.Errorf("rocketmqidem: cannot create the topic %s; what was created stays: %w", name, err)
			}
		}
		// The client drops the broker's answer, and the name servers learn of the topic from the
		// broker.
		if err := awaitTopic(ctx, a, name); err != nil {
			return fmt.Errorf("rocketmqidem: the topic %s was not created, or the name servers do not know it yet; what was created stays: %w", name, err)
		}
	}
	return nil
}

func newAdmin(servers *Servers) (admin.Admin, error) {
	opts := []admin.AdminOption{admin.WithResolver(servers.resolver()), admin.WithCredentials(servers.credentials())}
	if servers.TLS {
		opts = append(opts, admin.WithTls(true))
	}
	a, err := admin.NewAdmin(opts...)
	if err != nil {
		return nil, fmt.Errorf("rocketmqidem: the client does not start: %w", err)
	}
	return a, nil
}

// hasTopic returns an error if the name servers know no queue of the topic.
func hasTopic(ctx context.Context, a admin.Admin, topic string) error {
	queues, err := queuesOf(ctx, a, topic)
	if err == nil && len(queues) == 0 {
		err = errors.New("it has no queue that can be written")
	}
	return err
}

// queuesOf returns the queues of a topic that can be written.
func queuesOf(ctx context.Context, a admin.Admin, topic string) ([]*primitive.MessageQueue, error) {
	return untilDone(ctx, func() ([]*primitive.MessageQueue, error) { return a.FetchPublishMessageQueues(ctx, topic) })
}

// untilDone returns what a call of the client returns, or the error of ctx if that ends first. The
// client's calls do not end with a context; such a call is left to end by itself.
func untilDone[T any](ctx context.Context, call func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		value, err := call()
		done <- answer{value, err}
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// createTopic creates a topic on a broker, or leaves it as it is. The client waits for an answer
// for 5 s, whatever the context says, so it is asked again.
func createTopic(ctx context.Context, a admin.Admin, name, broker string, queues int) error {
	for {
		err := a.CreateTopic(ctx, admin.WithTopicCreate(name), admin.WithBrokerAddrCreate(broker),
			admin.WithReadQueueNums(queues), admin.WithWriteQueueNums(queues))
		if err == nil || ctx.Err() == nil && !errors.Is(err, clienterrors.ErrRequestTimeout) {
			return err
		}
		if ended := backoff.Pause(ctx, 50*time.Millisecond); ended != nil {
			return errors.Join(err, ended)
		}
	}
}

// awaitTopic returns when the name servers know the topic.
func awaitTopic(ctx context.Context, a admin.Admin, topic string) error {
	for {
		err := hasTopic(ctx, a, topic)
		if err == nil {
			return nil
		}
		if ended := backoff.Pause(ctx, 50*time.Millisecond); ended != nil {
			return errors.Join(err, ended)
		}
	}
}

// checkTopics returns an error if one of the topics is missing.
func checkTopics(ctx context.Context, servers *Servers, timeout time.Duration, topics ...string) error {
	a, err := newAdmin(servers)
	if err != nil {
		return err
	}
	ctx, end := context.WithTimeout(ctx, timeout)
	defer end()
	for _, topic := range topics {
		if err = hasTopic(ctx, a, topic); err != nil {
			break
		}
	}
	_ = a.Close() // always nil
	if err != nil {
		return fmt.Errorf("rocketmqidem: cannot open the topics %q; Create makes them: %w", topics, err)
	}
	return nil
}
