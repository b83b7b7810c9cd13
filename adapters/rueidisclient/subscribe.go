package rueidisclient

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// subscribers counts the subscribers of each channel. rueidis stays subscribed after the last
// subscriber has left, as long as the connection lives. So the connection and the server would keep
// every channel that a caller has ever waited for.
type subscribers struct {
	mu     sync.Mutex
	counts map[string]int
}

// unsubscribeTime limits how long a server may take to unsubscribe. A new subscriber waits
// meanwhile, since otherwise its subscription could be removed.
const unsubscribeTime = time.Second

func (s *subscribers) add(channel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = make(map[string]int)
	}
	s.counts[channel]++
}

// remove removes a subscriber of a channel. After the last one it calls last.
func (s *subscribers) remove(channel string, last func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts[channel]--; s.counts[channel] > 0 {
		return
	}
	delete(s.counts, channel)
	last()
}

// Subscribe implements [redisclient.Subscriber].
func (c *Client) Subscribe(ctx context.Context, channel string, on func(payload string)) error {
	c.subs.add(channel)
	var leave sync.Once
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "subscribe" {
			on("")
		}
	})
	hooked = rueidis.WithOnReceiveReturnHook(hooked, func(err error, line rueidis.CommandClient) error {
		// on the connection that has the subscription
		leave.Do(func() {
			c.subs.remove(channel, func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unsubscribeTime)
				defer cancel()
				// a connection that fails has no subscriptions any more
				_ = line.Do(ctx, line.B().Unsubscribe().Channel(channel).Build()).Error()
			})
		})
		return err
	})
	err := c.client.Receive(hooked, c.client.B().Subscribe().Channel(channel).Build(), func(m rueidis.PubSubMessage) { on(m.Message) })
	leave.Do(func() { c.subs.remove(channel, func() {}) }) // it never got a connection
	return convertError(err)
}
