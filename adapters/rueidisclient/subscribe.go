package rueidisclient

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// subscribers counts those of each channel. That client leaves a channel subscribed when the last
// one has gone, for the life of the connection, so that all names that were ever waited for would
// stay with it and with the server.
type subscribers struct {
	mu  sync.Mutex
	now map[string]int
}

// unsubscribeTime is how long a server may take for it. Who comes meanwhile waits: what they
// subscribe to must not be taken away from them.
const unsubscribeTime = time.Second

func (s *subscribers) join(channel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		s.now = make(map[string]int)
	}
	s.now[channel]++
}

// leave calls last behind the last one of a channel.
func (s *subscribers) leave(channel string, last func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now[channel]--; s.now[channel] > 0 {
		return
	}
	delete(s.now, channel)
	last()
}

// Subscribe implements [redisclient.Subscriber].
func (c *Client) Subscribe(ctx context.Context, channel string, on func(payload string)) error {
	c.subs.join(channel)
	var leave sync.Once
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "subscribe" {
			on("")
		}
	})
	hooked = rueidis.WithOnReceiveReturnHook(hooked, func(err error, line rueidis.CommandClient) error {
		// of the connection that has the subscription
		leave.Do(func() {
			c.subs.leave(channel, func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unsubscribeTime)
				defer cancel()
				// a connection that fails has no subscriptions
				_ = line.Do(ctx, line.B().Unsubscribe().Channel(channel).Build()).Error()
			})
		})
		return err
	})
	err := c.r.Receive(hooked, c.r.B().Subscribe().Channel(channel).Build(), func(m rueidis.PubSubMessage) { on(m.Message) })
	leave.Do(func() { c.subs.leave(channel, func() {}) }) // it never came to a connection
	return convert(err)
}
