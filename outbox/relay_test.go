package outbox //nolint:testpackage // a relay's table is not exported

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// start runs a relay on f in the bubble until the test or the returned function ends it.
func start(t *testing.T, f *fakeTable, p Publisher, o *RelayOptions) (r *Relay, stop func() error) {
	t.Helper()
	r, err := newRelay(f, p, o, slog.New(slog.DiscardHandler))
	assert.NoError(t, err, "a relay")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return r, func() error {
		cancel()
		return <-ended
	}
}

// TestPollsBackOff: an idle relay looks at its longest interval, a woken one at once.
func TestPollsBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := new(fakeTable)
		var at time.Time
		r, stop := start(t, f, OneByOne(func(context.Context, Outgoing) error { at = time.Now(); return nil }), &RelayOptions{Poll: 10 * time.Second})
		time.Sleep(time.Minute)
		synctest.Wait()
		before := f.lookCount()
		time.Sleep(time.Minute)
		synctest.Wait()
		n := f.lookCount() - before
		assert.True(t, n >= 6 && n <= 13, "looks in a minute at an interval of 5 to 10 s: %d", n)
		f.add("a", "k")
		began := time.Now()
		r.Wake()
		time.Sleep(time.Second)
		synctest.Wait()
		assert.True(t, !at.IsZero() && at.Sub(began) < 100*time.Millisecond, "woken after %v", at.Sub(began))
		assert.NoError(t, stop(), "Run")
	})
}

// TestBackoffDoubles: the time between the attempts of one message doubles up to its limit, and the
// message is dead after the last attempt.
func TestBackoffDoubles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := new(fakeTable)
		f.add("a", "k")
		var at []time.Time
		var last int
		_, stop := start(t, f, OneByOne(func(_ context.Context, m Outgoing) error {
			at, last = append(at, time.Now()), m.Attempt
			return errors.New("no")
		}), &RelayOptions{MinWait: time.Minute, MaxWait: 5 * time.Minute, MaxAttempts: 6})
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, len(at), 6, "attempts")
		assert.Equal(t, last, 6, "the number of the last")
		for i, most := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute} {
			d := at[i+1].Sub(at[i])
			assert.True(t, d >= most/2 && d <= most+3*time.Second, "wait %d is %v, at most %v", i, d, most)
		}
		assert.True(t, f.rows[0].dead, "it is dead")
		assert.NoError(t, stop(), "Run")
	})
}

// TestOutageKillsNothing: a broker that is unavailable for three hours costs no attempt, and is
// called rarely.
func TestOutageKillsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := new(fakeTable)
		f.add("a", "k")
		var away atomic.Bool
		away.Store(true)
		var calls atomic.Int64
		_, stop := start(t, f, OneByOne(func(_ context.Context, m Outgoing) error {
			calls.Add(1)
			assert.Equal(t, m.Attempt, 1, "the attempt")
			if away.Load() {
				return Unavailable(errors.New("down"))
			}
			return nil
		}), nil)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		n := calls.Load()
		assert.True(t, n > 300 && n < 1000, "calls in three hours: %d", n)
		away.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, f.left(), 0, "rows")
		assert.NoError(t, stop(), "Run")
	})
}

// TestLapseEndsPublishing: if a relay cannot extend its lease, it ends the context of Publish a
// fifth of the lease before others may take over, begins nothing, and continues when the database
// answers again.
func TestLapseEndsPublishing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := new(fakeTable)
		f.add("a", "k")
		var ended time.Time
		calls := 0
		_, stop := start(t, f, OneByOne(func(ctx context.Context, _ Outgoing) error {
			if calls++; calls > 1 {
				return nil
			}
			f.setDown(true)
			<-ctx.Done()
			ended = time.Now()
			return ctx.Err()
		}), &RelayOptions{Lease: 15 * time.Second, PublishTimeout: time.Hour})
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, calls, 1, "calls while the database is away")
		left := f.leaseEnd.Sub(ended)
		assert.True(t, left >= 3*time.Second && left < 4*time.Second, "Publish was ended %v before the end of the lease", left)
		f.setDown(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, f.left(), 0, "rows")
		assert.NoError(t, stop(), "Run")
	})
}

// TestSlowPublishKeepsItsLease: while the process lives, a long Publish loses nothing to another
// relay.
func TestSlowPublishKeepsItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := new(fakeTable)
		f.add("a", "k")
		calls := 0
		_, stop := start(t, f, OneByOne(func(context.Context, Outgoing) error {
			calls++
			time.Sleep(10 * time.Minute)
			return nil
		}), &RelayOptions{PublishTimeout: time.Hour})
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		assert.Equal(t, fmt.Sprint(calls, f.left(), f.fence), "1 0 1", "calls, rows, fence")
		assert.NoError(t, stop(), "Run")
	})
}

// TestMarkIsRepeated: a published message that could not be marked is marked later, and not
// published again.
func TestMarkIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := new(fakeTable)
		f.add("a", "k")
		calls := 0
		_, stop := start(t, f, OneByOne(func(context.Context, Outgoing) error {
			calls++
			f.setDown(true)
			time.AfterFunc(5*time.Second, func() { f.setDown(false) })
			return nil
		}), nil)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		assert.Equal(t, fmt.Sprint(calls, f.left()), "1 0", "calls and rows")
		assert.NoError(t, stop(), "Run")
	})
}

// TestStopLetsPublishEnd: Run returns when the messages in flight are confirmed and marked. The
// context of a Publish that takes too long ends. If Publish ignores that, Run returns an error.
func TestStopLetsPublishEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes time.Duration
		heeds bool
		rows  int
		fails bool
	}{"in time": {5 * time.Second, true, 0, false}, "too long": {time.Hour, true, 1, false}, "deaf": {time.Hour, false, 1, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := new(fakeTable)
				f.add("a", "k")
				f.add("b", "k")
				_, stop := start(t, f, OneByOne(func(ctx context.Context, m Outgoing) error {
					if m.ID == "a" {
						return nil
					}
					done := ctx.Done()
					if !c.heeds {
						done = nil
					}
					select {
					case <-time.After(c.takes):
						return nil
					case <-done:
						return ctx.Err()
					}
				}), &RelayOptions{PublishTimeout: 2 * time.Hour})
				time.Sleep(time.Second)
				synctest.Wait()
				began := time.Now()
				err := stop()
				assert.Equal(t, err != nil, c.fails, "Run: %v", err)
				assert.True(t, time.Since(began) < 20*time.Second, "it took %v", time.Since(began))
				if !c.fails {
					assert.Equal(t, f.left(), c.rows, "rows")
				}
				time.Sleep(2 * time.Hour) // the one that ignores its context
			})
		})
	}
}

// TestTurns: a publisher that keeps no order gets each key once in a call, and no message after a
// failed one of its key.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := new(fakeTable)
		for _, id := range []string{"a1", "a2", "b1", "a3", "b2"} {
			f.add(id, id[:1])
		}
		var calls []string
		_, stop := start(t, f, publish(func(_ context.Context, batch []Outgoing) []error {
			var ids []string
			errs := make([]error, len(batch))
			for i, m := range batch {
				ids = append(ids, m.ID)
				if m.ID == "a2" && m.Attempt == 1 {
					errs[i] = errors.New("no")
				}
			}
			calls = append(calls, strings.Join(ids, "+"))
			return errs
		}), nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, strings.Join(calls, " "), "a1+b1 a2+b2 a2 a3", "calls")
		assert.NoError(t, stop(), "Run")
	})
}

type publish func(context.Context, []Outgoing) []error

func (p publish) Publish(ctx context.Context, batch []Outgoing) []error { return p(ctx, batch) }

// TestHealthyRelayIsSilent: hours of messages, some of which fail once, log no warning and leave
// nothing. The bubble checks that no goroutine is left.
func TestHealthyRelayIsSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		f, tries, published := new(fakeTable), map[string]int{}, 0
		r, err := newRelay(f, OneByOne(func(_ context.Context, m Outgoing) error {
			if tries[m.ID]++; tries[m.ID] == 1 && strings.HasSuffix(m.ID, "0") {
				return errors.New("busy")
			}
			published++
			return nil
		}), nil, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
		assert.NoError(t, err, "a relay")
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		const hours = 6 * 60
		for i := range hours {
			f.add(fmt.Sprint("message ", i), fmt.Sprint(i%7))
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		assert.Equal(t, published, hours, "messages that were published")
		assert.Equal(t, f.left(), 0, "messages that are left")
		assert.Equal(t, log.String(), "", "warnings and errors")
		stop()
		assert.NoError(t, <-ended, "Run")
	})
}
