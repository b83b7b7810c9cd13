package idgen

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
)

// The errors of Claim; test with errors.Is.
var (
	// ErrNoWorker: all numbers are held.
	ErrNoWorker = errors.New("idgen: no worker number is free")
	// ErrLayout: the ids of this namespace have another layout, and those of two layouts may be
	// equal.
	ErrLayout = errors.New("idgen: the namespace has another layout")
	// ErrClockOff: this clock and the store's differ by more than WorkersOptions.MaxSkew.
	ErrClockOff = errors.New("idgen: this clock is not that of the store")
)

// WorkersOptions configure [Workers].
type WorkersOptions struct {
	// Namespace keeps the numbers apart from those of other systems on the store; default "ids".
	// Ids of one namespace are unique, so all that make ids of one kind share it.
	Namespace string
	// Layout is that of all ids of the namespace, for ever; default [Twitter]. The first claim
	// keeps it in the store, and one with another layout fails ([ErrLayout]).
	Layout Layout
	// Max is how many numbers there are; default 1024, or what the layout has room for if that is
	// less.
	Max int
	// Lease is how long a number is held without a word to the store; default 30 s, 1 s to 1 h. It
	// is how long a number of a process that died stays taken, and how long ids can be made while
	// the store is away.
	Lease time.Duration
	// MaxSkew is how far this clock may be off the store's when a number is claimed; default 1 s,
	// at most a tenth of Lease.
	MaxSkew time.Duration
	// Unsafe takes a store that may lose what it has confirmed, by a crash or a failover: then ids
	// repeat. It is for tests and demonstrations, such as with memstore.
	Unsafe bool
	// Now is the clock of the generators; default one that begins at time.Now with each claim and
	// goes on by the monotonic clock.
	Now func() time.Time
}

// Workers leases worker numbers. It is safe for concurrent use.
type Workers struct {
	numbers Numbers
	o       WorkersOptions
}

// NewWorkers returns workers on a store: any that keeps progress (clause S19), which all of this
// project do. Claim asks the store whether what it confirms can be lost ([retrysafe.Keeper]), and
// refuses one that does, or that cannot tell. It panics on options that make no sense.
func NewWorkers(s retrysafe.Store, o *WorkersOptions) *Workers {
	if s == nil {
		panic("idgen: NewWorkers needs a store")
	}
	return NewWorkersOn(&storeNumbers{store: s, unsafe: o != nil && o.Unsafe}, o)
}

// NewWorkersOn returns workers on another source of numbers, such as that of adapters/zklock. It
// panics on options that make no sense.
func NewWorkersOn(n Numbers, o *WorkersOptions) *Workers {
	w := &Workers{numbers: n}
	if o != nil {
		w.o = *o
	}
	if w.o.Namespace == "" {
		w.o.Namespace = "ids"
	}
	if w.o.Layout == (Layout{}) {
		w.o.Layout = Twitter
	}
	if err := w.o.Layout.Validate(); err != nil {
		panic(err.Error())
	}
	room := int(min(w.o.Layout.Workers(), mostNumbers)) //nolint:gosec // small
	if w.o.Max == 0 {
		w.o.Max = min(1024, room)
	}
	if w.o.Lease == 0 {
		w.o.Lease = 30 * time.Second
	}
	if w.o.MaxSkew == 0 {
		w.o.MaxSkew = min(time.Second, w.o.Lease/10)
	}
	if n == nil || w.o.Max < 1 || w.o.Max > room || w.o.Lease < time.Second || w.o.Lease > time.Hour || len(w.o.Namespace) > retrysafe.MaxPart || w.o.MaxSkew < 0 || w.o.MaxSkew > w.o.Lease/10 {
		panic(fmt.Sprintf("idgen: workers need a source of numbers, Max of 1 to %d, which is what the layout has (%d), Lease of 1s to 1h (%v) and MaxSkew up to a tenth of it (%v)",
			room, w.o.Max, w.o.Lease, w.o.MaxSkew))
	}
	return w
}

// mostNumbers is how many are looked through for a free one, at most.
const mostNumbers = 1 << 22

// Claim leases a number that nobody holds, and keeps it until Release, or until the store has not
// answered for a lease. It tries the numbers in turn from a random one, each a trip or two. Where
// all that are free have times reserved by those who held them last, it waits for the first to
// pass, at most a lease. [ErrNoWorker] when none is free.
func (w *Workers) Claim(ctx context.Context) (*Held, error) {
	if err := w.numbers.Agree(ctx, w.o.Namespace, w.o.Layout); err != nil {
		return nil, fmt.Errorf("idgen: claim a worker number: %w", err)
	}
	for empty := 0; ; {
		h, wait, err := w.round(ctx)
		if h != nil || err != nil {
			return h, err
		}
		if wait == 0 { // others may have been looking at the free ones just now
			if empty++; empty == rounds {
				break
			}
			wait = 50*time.Millisecond + rand.N(50*time.Millisecond)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
	}
	return nil, fmt.Errorf("%w: %d are held; raise Max if the layout has room, or wait %v for those of processes that died", ErrNoWorker, w.o.Max, w.o.Lease)
}

// rounds is how often a claim finds all numbers held before it gives up.
const rounds = 3

// round tries all numbers once. Where none was to be had, reserved is when the first of those that
// nobody holds can be; zero: there is none.
func (w *Workers) round(ctx context.Context) (h *Held, reserved time.Duration, err error) {
	begin := rand.IntN(w.o.Max)
	for i := range w.o.Max {
		h, ahead, err := w.try(ctx, (begin+i)%w.o.Max)
		if h != nil || err != nil {
			return h, 0, err
		}
		if ahead > 0 && ahead <= w.o.Lease+2*w.o.MaxSkew && (reserved == 0 || ahead < reserved) {
			// what is longer was reserved by a wrong clock
			reserved = ahead
		}
	}
	return nil, reserved, nil
}

// try claims one number; nil: somebody holds it, or its times are reserved for so long.
func (w *Workers) try(ctx context.Context, number int) (*Held, time.Duration, error) {
	now := w.o.Now
	if now == nil {
		clock := steady()
		now = func() time.Time { return time.Unix(0, clock()) }
	}
	sent := now()
	taken, err := w.numbers.Take(ctx, NumberRequest{Namespace: w.o.Namespace, Number: number, Lease: w.o.Lease})
	switch {
	case errors.Is(err, ErrTaken):
		return nil, 0, nil
	case err != nil:
		return nil, 0, fmt.Errorf("idgen: claim a worker number: %w", err)
	}
	h := &Held{taken: taken, layout: w.o.Layout, number: uint64(number), lease: w.o.Lease, now: now, done: make(chan struct{})} //nolint:gosec // not negative
	came := now()
	if early, late := taken.Now.Sub(came), sent.Sub(taken.Now); early > w.o.MaxSkew || late > w.o.MaxSkew {
		_ = taken.Release(ctx, "clock") // or it lapses
		return nil, 0, fmt.Errorf("%w: it is %v off; let both keep time by NTP", ErrClockOff, max(early, late).Round(time.Millisecond))
	}
	if ahead := taken.Reserved.Sub(taken.Now); ahead > w.o.MaxSkew {
		_ = taken.Release(ctx, "reserved")
		return nil, ahead, nil
	}
	h.life, h.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := h.extend(ctx); err != nil { // before the first id its time is reserved
		h.stop()
		_ = taken.Release(context.WithoutCancel(ctx), "unreserved")
		return nil, 0, fmt.Errorf("idgen: reserve the times of a worker number: %w", err)
	}
	h.beats.Add(1)
	go h.beat()
	return h, 0, nil
}

// Held is a number that is leased. Give it to NewSnowflake, once.
type Held struct {
	taken  Taken
	layout Layout
	number uint64
	lease  time.Duration
	now    func() time.Time
	until  atomic.Int64
	used   atomic.Bool // it has a generator

	life  context.Context
	stop  context.CancelFunc
	beats sync.WaitGroup
	done  chan struct{}
	once  sync.Once
}

// Number implements [Worker].
func (h *Held) Number() uint64 { return h.number }

// Fence grows with each holder of the number.
func (h *Held) Fence() retrysafe.Fence { return h.taken.Fence }

// From implements [Worker]: up to there an earlier holder may have made ids.
func (h *Held) From() time.Time { return h.taken.Reserved }

// Until implements [Worker].
func (h *Held) Until() int64 { return h.until.Load() }

// Done is closed when the number is held no more: it was released, or its lease was lost. No id is
// made then but those whose times were reserved before; claim another number.
func (h *Held) Done() <-chan struct{} { return h.done }

// String names the number, for logs.
func (h *Held) String() string { return fmt.Sprintf("worker %d, fence %d", h.number, h.taken.Fence) }

// extend renews the lease and reserves the times up to its end. They count from when the call is
// sent, by this clock.
func (h *Held) extend(ctx context.Context) error {
	until := h.now().Add(h.lease).UnixNano()
	if last := h.until.Load(); until <= last {
		// the clock was set back; what is reserved stays, and the order of reservations goes on
		until = last + 1
	}
	ctx, cancel := context.WithTimeout(ctx, h.lease/3)
	defer cancel()
	err := h.taken.Reserve(ctx, until, h.lease)
	if err == nil {
		h.until.Store(until)
	}
	return err
}

// beat extends the lease until it is lost or released.
func (h *Held) beat() {
	defer h.beats.Done()
	every := h.lease / 3
	lives := time.Now()
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-h.life.Done():
			return
		case <-h.taken.Lost:
			h.end()
			return
		case <-timer.C:
		}
		began := time.Now()
		err := h.extend(h.life)
		switch {
		case err == nil:
			lives = began
		case errors.Is(err, retrysafe.ErrLeaseLost), time.Since(lives) > h.lease:
			h.end()
			return
		}
		next := every
		if err != nil {
			next = every / 4
		}
		timer.Reset(next)
	}
}

func (h *Held) end() { h.once.Do(func() { close(h.done) }) }

// Release gives the number back. Ids of its generators whose times were reserved may still be made:
// the next holder starts above them.
func (h *Held) Release(ctx context.Context) error {
	h.stop()
	h.beats.Wait()
	defer h.end()
	return h.taken.Release(ctx, "released")
}
