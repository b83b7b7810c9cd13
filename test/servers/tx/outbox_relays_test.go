package tx_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestOutboxSeveralRelays: relays come and go while messages are added. Nothing is lost, each key
// is in order, and nothing is published twice while no relay dies.
func TestOutboxSeveralRelays(t *testing.T) {
	t.Parallel()
	shops.Each(t, func(t *testing.T, a, b *shops.Shop) {
		t.Helper()
		box, other, got := newBox(t, a, nil), newBox(t, b, nil), new(broker)
		o := func() *outbox.RelayOptions {
			o := steadyRelay()
			o.Lease, o.Batch = 30*time.Second, 7 // partitions change hands every third of it
			return o
		}
		var busy [4]atomic.Int64
		as := func(i int) outbox.Publisher {
			return publisherFunc(func(ctx context.Context, batch []outbox.Outgoing) []error {
				busy[i].Add(int64(len(batch)))
				return got.Publish(ctx, batch)
			})
		}
		_, stop := runRelay(t, box, as(0), o())
		runRelay(t, other, as(1), o())
		all := new(traffic)
		all.addTraffic(t, a, box, "a", 4, 40)
		_, late := runRelay(t, other, as(2), o())
		all.addTraffic(t, b, other, "b", 4, 40)
		assert.NoError(t, stop(), "the first relay ends")
		awaitPublished(t, func() bool { // the last relay has got its share
			all.addTraffic(t, b, other, fmt.Sprintf("c%d-", busy[2].Load()+time.Now().UnixNano()), 4, 10)
			// Others need the processor too.
			awaitPublished(t, func() bool { return countPending(t, box) == 0 }, "one share")
			return busy[2].Load() > 0
		}, "the third relay takes part")
		assert.NoError(t, late(), "the third relay ends")
		awaitPublished(t, func() bool { return countPending(t, box) == 0 }, "all are published")
		repeats, err := all.checkOrder(got.idsOf)
		assert.NoError(t, err, "what came")
		assert.Equal(t, repeats, 0, "repeats")
	})
}

// TestOutboxLostLease: a relay whose database hangs while it publishes loses its lease. Another one
// takes over, and the first publishes nothing more and can mark nothing. Duplicates have the same
// id, and consumers that drop them see the order.
func TestOutboxLostLease(t *testing.T) {
	t.Parallel()
	shops.EachKindOfServer(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		s := server.Shop(t)
		box := newBox(t, s, nil)
		slow, set, err := server.FaultyShop()
		assert.NoError(t, err, "a shop")
		defer slow.DB.Close()
		got := new(broker)
		stuck, goOn := make(chan struct{}), make(chan struct{})
		var once sync.Once
		var after atomic.Bool
		first := publisherFunc(func(ctx context.Context, batch []outbox.Outgoing) []error {
			if after.Load() {
				t.Error("a relay without a lease publishes")
			}
			once.Do(func() { close(stuck) })
			<-goOn // it ignores its context, like a packet in flight
			return got.Publish(ctx, batch)
		})
		for i := range 5 {
			addMessages(t, s, box, outbox.Message{ID: fmt.Sprint(i), Topic: "orders", Key: "ada"})
		}
		_, stop := runRelay(t, newBox(t, slow, nil), first, hastyRelay())
		waits.Soon(t, stuck, "the first relay publishes")
		hung := make(chan struct{})
		set(func(_ string, run func() error) error {
			<-hung
			return run()
		})
		runRelay(t, box, got, hastyRelay())
		awaitPublished(t, func() bool { return countPending(t, box) == 0 }, "the second relay publishes all")
		addMessages(t, s, box, outbox.Message{ID: "5", Topic: "orders", Key: "ada"})
		awaitPublished(t, func() bool { return len(got.idsOf("ada")) == 6 }, "and goes on")
		after.Store(true)
		close(goOn)
		awaitPublished(t, func() bool { return len(got.idsOf("ada")) > 6 }, "the late one arrives")
		close(hung)
		set(nil)
		assert.NoError(t, stop(), "Run")
		seen, repeats := removeRepeats(got.idsOf("ada"))
		assert.Equal(t, strings.Join(seen, " "), "0 1 2 3 4 5", "in order for those who drop repeats")
		assert.True(t, repeats > 0, "the late one is a repeat")
	})
}

// TestOutboxLateMark: what a relay has published but not marked before it lost its lease, it cannot
// mark afterwards: the other relay owns it.
func TestOutboxLateMark(t *testing.T) {
	t.Parallel()
	shops.EachKindOfServer(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		s := server.Shop(t)
		box := newBox(t, s, nil)
		slow, set, err := server.FaultyShop()
		assert.NoError(t, err, "a shop")
		defer slow.DB.Close()
		got := new(broker)
		at := func(reached chan struct{}, goOn chan struct{}) outbox.Publisher {
			var once sync.Once
			return publisherFunc(func(ctx context.Context, batch []outbox.Outgoing) []error {
				once.Do(func() { close(reached) })
				<-goOn
				return got.Publish(ctx, batch)
			})
		}
		addMessages(t, s, box, outbox.Message{ID: "0", Topic: "orders", Key: "ada"})
		first, second, late, goOn := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
		runRelay(t, newBox(t, slow, nil), at(first, late), hastyRelay())
		waits.Soon(t, first, "the first relay publishes")
		hung, tried := make(chan struct{}), make(chan struct{}, 1)
		set(func(step string, run func() error) error {
			<-hung
			err := run()
			if strings.Contains(step, "SELECT count(*) FROM") && strings.Contains(step, "_parts") {
				select {
				case tried <- struct{}{}:
				default:
				}
			}
			return err
		})
		runRelay(t, box, at(second, goOn), hastyRelay())
		waits.Soon(t, second, "the second relay has it")
		close(hung)
		close(late)
		waits.Soon(t, tried, "the first relay tries to mark")
		waits.Until(t.Context(), func() bool { return len(got.idsOf("ada")) == 1 })
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		waits.Until(ctx, func() bool {
			assert.Equal(t, countPending(t, box), 1, "pending messages")
			return false
		})
		close(goOn)
		awaitPublished(t, func() bool { return countPending(t, box) == 0 }, "the second relay marks it")
		assert.Equal(t, len(got.idsOf("ada")), 2, "times that it came")
	})
}

// TestOutboxStoppedInside: a relay whose process is stopped in a transaction keeps its locks only
// for seconds. Another one takes over, and the first does no harm when it continues.
func TestOutboxStoppedInside(t *testing.T) {
	t.Parallel()
	shops.EachKindOfServer(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		s := server.Shop(t)
		box := newBox(t, s, nil)
		stopped, set, err := server.FaultyShop()
		assert.NoError(t, err, "a shop")
		defer stopped.DB.Close()
		got := new(broker)
		_, stop := runRelay(t, newBox(t, stopped, nil), got, hastyRelay())
		addMessages(t, s, box, outbox.Message{ID: "0", Topic: "orders", Key: "ada"})
		awaitPublished(t, func() bool { return countPending(t, box) == 0 }, "the first relay publishes")
		inside, hung := make(chan struct{}), make(chan struct{})
		var once sync.Once
		set(func(step string, run func() error) error {
			err := run()
			if strings.Contains(step, "SET version = version") {
				once.Do(func() { close(inside) })
			}
			select {
			case <-inside: // from here on that process does nothing
				<-hung
			default:
			}
			return err
		})
		waits.Soon(t, inside, "the first relay takes its turn to deal")
		addMessages(t, s, box, outbox.Message{ID: "1", Topic: "orders", Key: "ada"})
		runRelay(t, box, got, hastyRelay())
		awaitPublished(t, func() bool { return countPending(t, box) == 0 }, "the second relay publishes")
		set(nil)
		close(hung)
		addMessages(t, s, box, outbox.Message{ID: "2", Topic: "orders", Key: "ada"})
		awaitPublished(t, func() bool { return countPending(t, box) == 0 }, "one of them publishes what comes after")
		assert.NoError(t, stop(), "Run")
		seen, _ := removeRepeats(got.idsOf("ada"))
		assert.Equal(t, strings.Join(seen, " "), "0 1 2", "in order for those who drop repeats")
		if server.Dialect == outbox.MySQL {
			var idle int
			assert.NoError(t, s.DB.QueryRowContext(t.Context(), "SELECT @@wait_timeout").Scan(&idle), "the limit of a connection that a relay has used")
			assert.True(t, idle > 3600, "it is put back: %d s", idle)
		}
	})
}
