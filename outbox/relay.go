package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// RelayOptions change a relay; nil and every zero field are fine. All relays of one outbox use the
// same Lease.
type RelayOptions struct {
	// Batch is how many messages are read at once for a partition; default 100, at most 1000.
	Batch int
	// Lease is how long the partitions of a relay that died stay with it; default 15 s, at least 1
	// s. A relay whose database does not answer for four fifths of it stops publishing.
	Lease time.Duration
	// Poll is the longest time between two looks for messages while there are none; default 500 ms.
	// It begins with 10 ms.
	Poll time.Duration
	// PublishTimeout ends the context of a call of Publish; default 30 s.
	PublishTimeout time.Duration
	// MaxAttempts is after how many failures a message is dead; default 15, which takes an hour and
	// more.
	MaxAttempts int
	// Wait is how long a message waits that has failed once; default 1 s. It doubles with each
	// failure up to MaxWait; default 10 min. Each is drawn between a half of it and the whole.
	Wait, MaxWait time.Duration
	// SkipDead lets a key go on behind a dead message, which is out of order then if it is
	// redriven. By default the key is held up until somebody has redriven or discarded it.
	SkipDead bool
	// Drain is how long Run, when its context has ended, lets what is being published come to its
	// end; default 10 s.
	Drain time.Duration
	// Connections is how many connections of the database the partitions of a relay use at once,
	// besides one or two of the relay itself; default 4. None is held while a message is published.
	Connections int
	// OnBatch is told of each batch that was published and marked, for metrics. It is called by
	// several goroutines and should not block.
	OnBatch func(Batch)
}

// Batch is what became of messages that were read together.
type Batch struct {
	// Published were confirmed; Failed are tried again later; Dead are not; HeldUp were not sent,
	// or not counted: the broker was away, or an earlier one of their key has failed.
	Published, Failed, Dead, HeldUp int
	// Oldest is the time from Add to the confirmation for the oldest one that was published, as far
	// as the clocks agree.
	Oldest time.Duration
	// Took is how long Publish took.
	Took time.Duration
}

// Relay publishes what stands in an outbox. Any number of them may run, in one process or many:
// each has partitions of its own.
type Relay struct {
	table     table
	publisher Publisher
	ordered   bool
	o         RelayOptions
	logger    *slog.Logger
	wake      chan struct{}
	running   atomic.Bool
	slots     chan struct{}

	complained sync.Map // what was said, and when last
}

// NewRelay returns a relay that publishes what stands in box through p.
func NewRelay(box *Outbox, p Publisher, o *RelayOptions) (*Relay, error) {
	if box == nil {
		return nil, errors.New("outbox: NewRelay needs an outbox")
	}
	return newRelay(tables{box}, p, o, box.logger)
}

func newRelay(t table, p Publisher, o *RelayOptions, logger *slog.Logger) (*Relay, error) {
	r := &Relay{table: t, publisher: p, logger: logger, wake: make(chan struct{}, 1)}
	if o != nil {
		r.o = *o
	}
	for _, n := range []struct {
		name        string
		value       *int
		usual, most int
	}{{"Batch", &r.o.Batch, 100, 1000}, {"MaxAttempts", &r.o.MaxAttempts, 15, 1 << 30}, {"Connections", &r.o.Connections, 4, Partitions}} {
		if *n.value == 0 {
			*n.value = n.usual
		}
		if *n.value < 1 || *n.value > n.most {
			return nil, fmt.Errorf("outbox: %s is %d; use 1 to %d, or leave it zero for %d", n.name, *n.value, n.most, n.usual)
		}
	}
	for _, d := range []struct {
		name         string
		value        *time.Duration
		usual, least time.Duration
	}{
		{"Lease", &r.o.Lease, 15 * time.Second, time.Second},
		{"Poll", &r.o.Poll, 500 * time.Millisecond, time.Millisecond},
		{"PublishTimeout", &r.o.PublishTimeout, 30 * time.Second, time.Millisecond},
		{"Wait", &r.o.Wait, time.Second, time.Millisecond},
		{"MaxWait", &r.o.MaxWait, 10 * time.Minute, time.Millisecond},
		{"Drain", &r.o.Drain, 10 * time.Second, time.Millisecond},
	} {
		if *d.value == 0 {
			*d.value = d.usual
		}
		if *d.value < d.least {
			return nil, fmt.Errorf("outbox: %s is %v; use %v or more, or leave it zero for %v", d.name, *d.value, d.least, d.usual)
		}
	}
	if p == nil {
		return nil, errors.New("outbox: NewRelay needs a publisher")
	}
	if in, ok := p.(Ordered); ok {
		r.ordered = in.KeepsOrder()
	}
	r.slots = make(chan struct{}, r.o.Connections)
	return r, nil
}

// Wake lets the relay look for messages at once: call it after the commit of a transaction that has
// added some. It never blocks, and is only about speed.
func (r *Relay) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run publishes until ctx ends. Then it lets what is being published come to its end, for
// [RelayOptions].Drain at most, gives its partitions to other relays, and returns nil. It is an
// error where the tables are missing when it begins, and where a Publish has not returned at the
// end; what the database refuses later is logged, and tried again.
func (r *Relay) Run(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return errors.New("outbox: this relay runs already; make another one with NewRelay")
	}
	defer r.running.Store(false)
	if err := r.table.ready(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // it was told to end before it had begun
		}
		return err
	}
	k := &keeper{Relay: r, base: context.WithoutCancel(ctx), lanes: map[int]*lane{}, again: make(chan struct{}, 1), ended: make(chan struct{}, 1)}
	looking, cancel := context.WithCancel(ctx)
	var looks sync.WaitGroup
	looks.Go(func() { k.poll(looking) })
	defer looks.Wait()
	defer cancel()
	return k.run(ctx)
}

// firstPoll is the time to the next look while there is work.
const firstPoll = 10 * time.Millisecond

// poll looks where there is work, often while there is some.
func (k *keeper) poll(ctx context.Context) {
	delay, moved, swept := firstPoll, int64(0), time.Time{}
	for {
		t := time.NewTimer(jitter(delay))
		select {
		case <-t.C:
		case <-k.wake:
			t.Stop()
			delay = firstPoll
		case <-ctx.Done():
			t.Stop()
			return
		}
		call, cancel := context.WithTimeout(ctx, k.o.Lease)
		all, err := k.table.look(call)
		if err == nil && time.Since(swept) > time.Minute {
			var more bool
			if more, err = k.sweep(call); !more {
				swept = time.Now()
			}
		}
		cancel()
		if err != nil && ctx.Err() == nil {
			k.complain("look for messages", err)
		}
		k.kick(all)
		now := k.moved.Load()
		if now != moved && err == nil {
			delay = firstPoll
		} else {
			delay = min(2*delay, k.o.Poll)
		}
		moved = now
	}
}

// sweepTime bounds how long messages that were kept are removed before the relay looks for work
// again.
const sweepTime = 200 * time.Millisecond

// sweep removes what has been kept long enough, some at a time; more: there are others.
func (k *keeper) sweep(ctx context.Context) (more bool, err error) {
	for end := time.Now().Add(sweepTime); ; {
		more, err = k.table.sweep(ctx)
		if err != nil || !more || time.Now().After(end) {
			return more && err == nil, err
		}
	}
}

// jitter is d or up to a half less, so that relays do not ask in step.
func jitter(d time.Duration) time.Duration { return d - rand.N(d/2+1) }

// backoff is how long a message waits that has failed so many times.
func (r *Relay) backoff(failures int) time.Duration {
	d := r.o.Wait
	for range failures - 1 {
		if d *= 2; d >= r.o.MaxWait {
			break
		}
	}
	return jitter(min(d, r.o.MaxWait))
}

// complainEvery bounds how often the same thing is logged.
const complainEvery = 10 * time.Second

func (r *Relay) complain(what string, err error) {
	now := time.Now()
	if last, ok := r.complained.Load(what); ok && now.Sub(last.(time.Time)) < complainEvery { //nolint:errcheck,forcetypeassert // it is one
		return
	}
	r.complained.Store(what, now)
	r.logger.Warn("outbox: the relay cannot "+what+", and tries again", "error", err)
}
