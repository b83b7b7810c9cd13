package amqpidem_test

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

// most is how many messages a test has.
const most = 200

// fates are what happens to the messages "0" to n-1 of a test, many at a time.
const (
	acked = iota
	left  // unsettled, as by a slow handler
	buried
	later
	givenBack
)

func fateOf(i int) int {
	if i%10 > givenBack {
		return acked
	}
	return i % 10
}

func settleAll(t *testing.T, ds []mqidem.Delivery, fate func(int) int) (errs []error) {
	t.Helper()
	errs = make([]error, most)
	var all sync.WaitGroup
	for _, d := range ds {
		i, err := strconv.Atoi(d.Message().ID)
		assert.NoError(t, err, "the id")
		all.Go(func() {
			switch fate(i) {
			case acked:
				errs[i] = d.Ack(t.Context())
			case buried:
				errs[i] = d.Dead(t.Context(), mqidem.Reason{Why: mqidem.DeadPoison, Source: d.Message().Source})
			case later:
				errs[i] = d.Retry(t.Context(), time.Millisecond)
			case givenBack:
				errs[i] = d.Retry(t.Context(), time.Minute)
			}
		})
	}
	all.Wait()
	return errs
}

func numberTexts(n int) (all []string) {
	for i := range n {
		all = append(all, strconv.Itoa(i))
	}
	return all
}

func receiveAll(t *testing.T, s *amqpidem.Source, n int) (ds []mqidem.Delivery) {
	t.Helper()
	for range n {
		ds = append(ds, receive(t, s))
	}
	return ds
}

// TestAcksMixed: acks that go out together settle what they are for, and nothing else: not what is
// still worked on, what comes later or what was given back to the broker.
func TestAcksMixed(t *testing.T) {
	t.Parallel()
	for name, quorum := range map[string]bool{"classic": false, "quorum": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = most
			url, queue := rabbit(t).vhost(t), uniqueQueue()
			o := &amqpidem.Options{Quorum: quorum, Delays: short, PublishTimeout: 5 * time.Second, Dialing: quietDialing()}
			s := open(t, url, queue, o)
			_, err := rawChannel(t, url).QueueDelete(queue+".delay.60000", false, false, false)
			assert.NoError(t, err, "delete a queue, so that a later try in a minute fails")
			publish(t, publisher(t, url, nil), queue, numberTexts(n)...)
			for i, err := range settleAll(t, receiveAll(t, s, n), fateOf) {
				assert.Equal(t, err != nil, fateOf(i) == givenBack, "message %d: %v", i, err)
			}
			again := map[int]int{}
			for _, d := range receiveAll(t, s, n/5) {
				i, _ := strconv.Atoi(d.Message().ID)
				again[fateOf(i)]++
				assert.NoError(t, d.Ack(t.Context()), "Ack")
			}
			assert.Equal(t, again, map[int]int{later: n / 10, givenBack: n / 10}, "what is redelivered while others are worked on")
			assert.NoError(t, s.Close(), "Close")
			seen := drainQueue(t, url, queue, open(t, url, queue, o))
			for i := range n {
				switch times := seen[strconv.Itoa(i)]; fateOf(i) {
				case left:
					assert.Equal(t, times, 1, "how often message %d came again, which nobody has settled", i)
				case acked, buried:
					assert.Equal(t, times, 0, "how often message %d came again, which was settled", i)
				default:
					// a quorum queue may still lose an ack if the connection is closed just after
					// it
					assert.True(t, times <= 1, "message %d came again %d times", i, times)
				}
			}
			assert.Equal(t, len(listDead(t, deadLetters(t, url, queue))), n/10, "dead letters")
		})
	}
}

// TestAcksCut: if the connection breaks between acks, every message is redelivered whose ack has
// failed or that was not settled.
func TestAcksCut(t *testing.T) {
	t.Parallel()
	for _, how := range []fate{lose, cutAfter} {
		const n = 100
		p := behindProxy(t)
		s := p.open(t)
		publish(t, publisher(t, p.url, nil), p.queue, numberTexts(n)...)
		ds := receiveAll(t, s, n)
		p.onMethod(acks, how)
		errs := settleAll(t, ds[:n/2], fateOfAcked)
		errs2 := settleAll(t, ds[n/2:], fateOfAcked)
		eventually(t, "the source consumes again", func() bool { return p.methodCount(consumes) > 0 })
		assert.NoError(t, s.Close(), "Close")
		seen := drainQueue(t, p.url, p.queue, open(t, p.url, p.queue, p.options()))
		for i := range n {
			failed := i < n/2 && errs[i] != nil || i >= n/2 && errs2[i] != nil
			if fateOfAcked(i) == left || failed {
				assert.Equal(t, seen[strconv.Itoa(i)], 1, "how often message %d came again (%v)", i, failed)
			}
		}
	}
}

func fateOfAcked(i int) int {
	if i%7 == 3 {
		return left
	}
	return acked
}
