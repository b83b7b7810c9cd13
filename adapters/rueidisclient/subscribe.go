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
	mu  sync.Mutex
	now map[string]int
}

// unsubscribeTime limits how long a server may take to unsubscribe. A new subscriber waits
// meanwhile, since otherwise its subscription could be removed.
const unsubscribeTime = time.Second

func (s *subscribers) join(channel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		s.now = make(map[string]int)
	}
	s.now[channel]++
}

// leave removes a subscriber of a channel. After the last one it calls last.
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
		// on the connection that has the subscription
		leave.Do(func() {
			c.subs.leave(channel, func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unsubscribeTime)
				defer cancel()
				// a connection that fails has no subscriptions any more
				_ = line.Do(ctx, line.B().Unsubscribe().Channel(channel).Build()).Error()
			})
		})
		return err
	})
	err := c.r.Receive(hooked, c.r.B().Subscribe().Channel(channel).Build(), func(m rueidis.PubSubMessage) { on(m.Message) })
	leave.Do(func() { c.subs.leave(channel, func() {}) }) // it never got a connection
	return convert(err)
}
