package rocketmqidem

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/retrysafe/retrysafe/backoff"
	"github.com/retrysafe/retrysafe/internal/assert"
)

var onlyQueue = primitive.MessageQueue{Topic: "orders", BrokerName: "broker"}

// steppedClient stands in the place of the client, so that a test decides what the client's own
// reads do: when the client has the queue, and what it knows as the group's offset. The broker
// keeps the offsets from oldest to end, and says that none of the messages is for the group.
type steppedClient struct {
	mu          sync.Mutex
	has         bool
	offset      int64
	oldest, end int64
	removed     int64 // before it the broker passes over messages
	asked       int64 // what CurrentOffset says
	away        bool  // reads fail
}

func (*steppedClient) Start() error                                      { return nil }
func (*steppedClient) Shutdown() error                                   { return nil }
func (*steppedClient) Subscribe(string, consumer.MessageSelector) error  { return nil }
func (*steppedClient) Assign(string, []*primitive.MessageQueue) error    { return nil }
func (*steppedClient) PersistOffset(context.Context, string) error       { return nil }
func (*steppedClient) UpdateOffset(*primitive.MessageQueue, int64) error { return nil }

func (*steppedClient) GetTopicRouteInfo(string) ([]*primitive.MessageQueue, error) {
	return []*primitive.MessageQueue{&onlyQueue}, nil
}

func (c *steppedClient) CurrentOffset(*primitive.MessageQueue) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked, nil
}

func (c *steppedClient) PullFrom(ctx context.Context, _ *primitive.MessageQueue, offset int64, _ int) (*primitive.PullResult, error) {
	if err := backoff.Pause(ctx, 100*time.Millisecond); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		return nil, errors.New("the broker is away")
	}
	at := &primitive.PullResult{Status: primitive.PullNoMsgMatched, NextBeginOffset: c.end, MinOffset: c.oldest, MaxOffset: c.end}
	if offset < c.oldest {
		at.Status, at.NextBeginOffset = primitive.PullOffsetIllegal, c.oldest
	} else if offset > c.end {
		at.Status = primitive.PullOffsetIllegal
	} else if offset < c.removed {
		at.NextBeginOffset = c.removed
	}
	return at, nil
}

func (c *steppedClient) held() map[primitive.MessageQueue]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.has {
		return nil
	}
	return map[primitive.MessageQueue]int64{onlyQueue: c.offset}
}

// openStepped returns a source with the client, and a function that changes the client and returns
// what is reported as lost after that.
func openStepped(t *testing.T, c *steppedClient) (s *Source, change func(func()) int64) {
	o, err := (&Options{Topic: "orders", Group: "billing", Tags: "paid", Logger: slog.New(slog.DiscardHandler)}).withDefaults()
	assert.NoError(t, err, "options")
	s = newSource(o)
	s.client = &groupClient{pull: c, held: c.held, reads: new(sync.Map), shares: newShares()}
	s.client.allocate("billing", "1", []*primitive.MessageQueue{&onlyQueue}, []string{"1"})
	s.start()
	t.Cleanup(func() {
		s.cancel()
		s.tasks.Wait()
	})
	return s, func(f func()) (lost int64) {
		c.mu.Lock()
		f()
		c.mu.Unlock()
		_ = backoff.Pause(t.Context(), 5*time.Second)
		synctest.Wait()
		for {
			d, _, _ := s.takeRecord()
			if d == nil {
				return lost
			}
			lost += d.(*lostDelivery).messages
		}
	}
}

// The client finds deleted messages by its own read, before ours. It says nothing, keeps the queue
// for a while, and gets it again with an offset that it has moved past them.
func TestLostMessagesThatTheClientHasSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &steppedClient{oldest: 3, end: 20, asked: 1}
		_, change := openStepped(t, c)
		assert.Equal(t, change(func() { c.has, c.offset = true, 1 }), int64(2), "lost before the oldest message")
		assert.Equal(t, change(func() { c.has = false }), int64(0), "lost while the client has given the queue up")
		assert.Equal(t, change(func() { c.has, c.oldest, c.end, c.offset = true, 30, 40, 30 }), int64(10), "lost when the queue comes back")
		assert.Equal(t, change(func() { c.has = false }), int64(0), "lost while the client has given the queue up again")
		assert.Equal(t, change(func() { c.has, c.offset = true, 30 }), int64(0), "lost a second time")
	})
}

// Another consumer has settled what this one does not find.
func TestMessagesThatAnotherConsumerHadAreNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &steppedClient{end: 20}
		s, change := openStepped(t, c)
		share := func(with string) {
			s.client.allocate("billing", "1", []*primitive.MessageQueue{&onlyQueue}, []string{with})
		}
		assert.Equal(t, change(func() { c.has = true }), int64(0), "lost at the start")
		share("2")
		assert.Equal(t, change(func() {}), int64(0), "lost while the group gives the queue to another consumer")
		c.mu.Lock()
		c.oldest, c.end, c.offset, c.asked = 30, 40, 30, 30
		c.mu.Unlock()
		share("1")
		assert.Equal(t, change(func() {}), int64(0), "lost when the queue comes back")
	})
}

// The client says of a queue that the group has no offset, also if it did not reach the broker.
func TestOffsetThatTheClientCouldNotRead(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ offset, lost int64 }{
		"the group has an offset": {5, 3}, "the group is new": {-1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := &steppedClient{oldest: 8, end: 20, asked: -1}
				_, change := openStepped(t, c)
				assert.Equal(t, change(func() { c.has, c.offset, c.asked = true, -1, test.offset }), test.lost, "lost messages")
			})
		})
	}
}

// A topic that was created again begins at 0; its losses are counted from there.
func TestLossesOfATopicThatWasCreatedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &steppedClient{end: 20}
		_, change := openStepped(t, c)
		assert.Equal(t, change(func() { c.has = true }), int64(0), "lost at the start")
		assert.Equal(t, change(func() { c.end = 0 }), int64(0), "lost when the topic is created again")
		assert.Equal(t, change(func() { c.oldest, c.end = 4, 6 }), int64(4), "lost of the new topic")
	})
}

// The broker has deleted a file, and does not know yet that the queue begins after it. The client's
// own read has moved the group's offset before this consumer has the queue.
func TestLostMessagesThatTheBrokerPassesOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &steppedClient{oldest: 2, removed: 9, end: 9, asked: 2}
		s, change := openStepped(t, c)
		assert.Equal(t, change(func() {
			s.o.Tags = ""
			c.has, c.offset = true, 9
		}), int64(7), "lost messages")
	})
}

// The client gives up the queue of a new group before our first read has an answer.
func TestNewGroupLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &steppedClient{asked: -1, away: true}
		_, change := openStepped(t, c)
		assert.Equal(t, change(func() { c.has, c.offset = true, -1 }), int64(0), "lost while the broker is away")
		assert.Equal(t, change(func() { c.has = false }), int64(0), "lost when the queue is given up")
		assert.Equal(t, change(func() { c.has, c.away, c.oldest, c.end, c.offset = true, false, 8, 20, 8 }), int64(0), "lost when it comes back")
	})
}
