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

// RelayOptions configure a relay. nil and every zero field are valid. All relays of one outbox must
// use the same Lease.
type RelayOptions struct {
	// Batch is how many messages are read at once for a partition; default 100, at most 1000.
	Batch int
	// Lease is how long a dead relay keeps its partitions; default 15 s, at least 1 s. A relay
	// stops publishing if its database does not answer for four fifths of Lease.
	Lease time.Duration
	// Poll is the longest interval between two looks for messages while there are none; default 500
	// ms. The first interval is 10 ms.
	Poll time.Duration
	// PublishTimeout ends the context of a call of Publish; default 30 s.
	PublishTimeout time.Duration
	// MaxAttempts is the number of failures after which a message is dead; default 15, which takes
	// an hour or more.
	MaxAttempts int
	// MinWait is how long a message waits after its first failure; default 1 s. It doubles with
	// each failure up to MaxWait; default 10 min. Each wait is random, between half of that and the
	// whole.
	MinWait, MaxWait time.Duration
	// SkipDead lets a key continue after a dead message. If that message is redriven, it is then
	// out of order. By default a dead message holds up its key until an operator redrives or
	// discards it.
	SkipDead bool
	// Drain is how long Run waits for running calls of Publish after its context has ended; default
	// 10 s.
	Drain time.Duration
	// Connections is how many connections of the database the partitions of a relay use at once,
	// besides one or two of the relay itself; default 4. No connection is held during Publish.
	Connections int
	// OnBatch receives each batch that was published and marked, for metrics. Several goroutines
	// call it concurrently, and it should not block. The context has the values of that of Run, and
	// does not end with it.
	OnBatch func(context.Context, Batch)
}

// Batch is the outcome of messages that were read together.
type Batch struct {
	// Published counts confirmed messages, Failed those that are retried later, and Dead those that
	// are not. HeldUp counts messages that were not sent or not counted: the broker was
	// unavailable, or an earlier message of their key has failed.
	Published, Failed, Dead, HeldUp int
	// Oldest is the time from Add to the confirmation of the oldest published message, as far as
	// the clocks agree.
	Oldest time.Duration
	// Took is how long Publish took.
	Took time.Duration
}

// Relay publishes the messages of an outbox. Any number of relays can run, in one process or many;
// each has its own partitions.
type Relay struct {
	table     relayTable
	publisher Publisher
	ordered   bool
	o         RelayOptions
	logger    *slog.Logger
	wake      chan struct{}
	running   atomic.Bool
	slots     chan struct{}

	lastLogged sync.Map // last time of each logged complaint
}

// NewRelay returns a relay that publishes the messages of box through p.
func NewRelay(box *Outbox, p Publisher, o *RelayOptions) (*Relay, error) {
	if box == nil {
		return nil, errors.New("outbox: NewRelay needs an outbox")
	}
	return newRelay(sqlRelayTable{box}, p, o, box.logger)
}

func newRelay(t relayTable, p Publisher, o *RelayOptions, logger *slog.Logger) (*Relay, error) {
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
		{"MinWait", &r.o.MinWait, time.Second, time.Millisecond},
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

// Wake lets the relay look for messages at once. Call it after the commit of a transaction that has
// added some. It never blocks, and only makes publishing faster.
func (r *Relay) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run publishes until ctx ends. Then it waits for running calls of Publish, for at most
// [RelayOptions].Drain, releases its partitions to other relays, and returns nil. Run returns an
// error if the tables are missing when it starts, or if a Publish has not returned at the end.
// Later errors of the database are logged, and Run tries again.
func (r *Relay) Run(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return errors.New("outbox: this relay runs already; make another one with NewRelay")
	}
	defer r.running.Store(false)
	if err := r.table.checkVersion(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // ended before it had begun
		}
		return err
	}
	k := &relayRun{Relay: r, baseCtx: context.WithoutCancel(ctx), lanes: map[int]*lane{}, dealNow: make(chan struct{}, 1), laneEnded: make(chan struct{}, 1)}
	looking, cancel := context.WithCancel(ctx)
	var looks sync.WaitGroup
	looks.Go(func() { k.pollWork(looking) })
	defer looks.Wait()
	defer cancel()
	return k.run(ctx)
}

// firstPoll is the interval between looks while there is work.
const firstPoll = 10 * time.Millisecond

// pollWork looks for work, more often while there is some.
func (k *relayRun) pollWork(ctx context.Context) {
	delay, moved, swept := firstPoll, int64(0), time.Time{}
	for {
		t := time.NewTimer(withJitter(delay))
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
		all, err := k.table.readPartitions(call)
		if err == nil && time.Since(swept) > time.Minute {
			var more bool
			if more, err = k.sweepKept(call); !more {
				swept = time.Now()
			}
		}
		cancel()
		if err != nil && ctx.Err() == nil {
			k.logProblem("look for messages", err)
		}
		k.wakeLanes(all)
		now := k.batchesMoved.Load()
		if now != moved && err == nil {
			delay = firstPoll
		} else {
			delay = min(2*delay, k.o.Poll)
		}
		moved = now
	}
}

// sweepTime limits how long kept messages are removed before the relay looks for work again.
const sweepTime = 200 * time.Millisecond

// sweepKept removes messages that were kept long enough, in batches. more reports that there are
// others.
func (k *relayRun) sweepKept(ctx context.Context) (more bool, err error) {
	for end := time.Now().Add(sweepTime); ; {
		more, err = k.table.sweepKept(ctx)
		if err != nil || !more || time.Now().After(end) {
			return more && err == nil, err
		}
	}
}

// withJitter returns d or up to half of it less, so that relays do not poll in step.
func withJitter(d time.Duration) time.Duration { return d - rand.N(d/2+1) }

// retryWait returns how long a message waits after this many failures.
func (r *Relay) retryWait(failures int) time.Duration {
	d := r.o.MinWait
	for range failures - 1 {
		if d *= 2; d >= r.o.MaxWait {
			break
		}
	}
	return withJitter(min(d, r.o.MaxWait))
}

// problemLogInterval is the shortest interval between two logs of the same problem.
const problemLogInterval = 10 * time.Second

func (r *Relay) logProblem(what string, err error) {
	now := time.Now()
	if last, ok := r.lastLogged.Load(what); ok && now.Sub(last.(time.Time)) < problemLogInterval { //nolint:errcheck,forcetypeassert // it is one
		return
	}
	r.lastLogged.Store(what, now)
	r.logger.Warn("outbox: the relay cannot "+what+", and tries again", "error", err)
}
