package rocketmqidem

import (
	"context"
	"errors"
	"slices"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// HaveShared reports whether these sources, which are all of a group, have the queues that the
// group gives them: those of a topic with so many queues, and the one of later tries.
func HaveShared(sources []*Source, queues int) bool {
	var names []string
	for _, s := range sources {
		names = append(names, s.client.name)
	}
	slices.Sort(names)
	for _, s := range sources {
		want := map[primitive.MessageQueue]bool{}
		for topic, n := range map[string]int{s.o.Topic: queues, s.o.retryTopic(): 1} {
			var all []*primitive.MessageQueue
			for i := range n {
				all = append(all, &primitive.MessageQueue{Topic: topic, BrokerName: "broker", QueueId: i})
			}
			for _, id := range consumer.AllocateByAveragely(s.o.Group, s.client.name, all, names) {
				want[*id] = true
			}
		}
		owned := s.client.owned()
		s.mu.Lock()
		same := len(owned) == len(want) && len(s.queues) == len(want)
		for id := range want {
			_, ok := owned[id]
			same = same && ok && s.queues[id] != nil
		}
		s.mu.Unlock()
		if !same {
			return false
		}
	}
	return true
}

// OldestOffset asks the broker for the offset of the oldest message of a queue.
func OldestOffset(ctx context.Context, servers *Servers, topic string) (int64, error) {
	c, err := newGroupClient(servers, "looks")
	if err != nil {
		return 0, err
	}
	defer c.close()
	if err := errors.Join(c.pull.Assign(topic, nil), c.pull.Start()); err != nil {
		return 0, err
	}
	at, err := queueSpan(ctx, c, primitive.MessageQueue{Topic: topic, BrokerName: "broker"})
	return at.from, err
}
