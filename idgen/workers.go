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
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// The errors of Claim; test with errors.Is.
var (
	// ErrNoWorker means that all numbers are held.
	ErrNoWorker = errors.New("idgen: no worker number is free")
	// ErrLayout means that the ids of this namespace have another layout. Ids of two layouts may be
	// equal.
	ErrLayout = errors.New("idgen: the namespace has another layout")
	// ErrClockOff means that this clock and the store's differ by more than WorkersOptions.MaxSkew.
	ErrClockOff = errors.New("idgen: this clock is not that of the store")
)

// WorkersOptions configures [Workers].
type WorkersOptions struct {
	// Namespace separates the numbers from those of other systems on the store; default "ids". Ids
	// of one namespace are unique, so all processes that make ids of one kind must share it.
	Namespace string
	// Layout is the layout of all ids of the namespace, for ever; default [Twitter]. The first
	// claim stores it, and a claim with another layout fails with [ErrLayout].
	Layout Layout
	// Max is how many numbers there are; default 1024, or what the layout has room for if that is
	// less.
	Max int
	// Lease is how long a number is held without a renewal; default 30 s, 1 s to 1 h. The number of
	// a process that died stays taken for that long. Ids can be made for that long while the store
	// is unreachable.
	Lease time.Duration
	// MaxSkew is how much this clock and the store's may differ when a number is claimed; default 1
	// s, at most a tenth of Lease.
	MaxSkew time.Duration
	// Unsafe accepts a store that may lose what it has confirmed, in a crash or a failover. Ids
	// then repeat. It is for tests and demonstrations, such as with memstore.
	Unsafe bool
	// Now is the clock of the generators. The default starts at time.Now with each claim and
	// continues with the monotonic clock.
	Now func() time.Time
}

// Workers leases worker numbers. It is safe for concurrent use.
type Workers struct {
	numbers Numbers
	o       WorkersOptions
}

// NewWorkers returns workers on a store. The store must keep progress (clause S19), as all stores
// of this project do. Claim asks the store whether it can lose what it confirms
// ([storeapi.Keeper]), and refuses one that can, or that cannot answer. NewWorkers panics on
// invalid options.
func NewWorkers(s storeapi.Store, o *WorkersOptions) *Workers {
	if s == nil {
		panic("idgen: NewWorkers needs a store")
	}
	return NewWorkersOn(&storeNumbers{store: s, unsafe: o != nil && o.Unsafe}, o)
}

// NewWorkersOn returns workers on another source of numbers, such as that of adapters/zklock. It
// panics on invalid options.
func NewWorkersOn(n Numbers, o *WorkersOptions) *Workers {
	w := &Workers{numbers: n}
	if o != nil {
		w.o = *o
	}
	if w.o.Namespace == "" {
		w.o.Namespace = "ids"
	}
	if w.o.Layout == (Layout{}) {
		w.o.Layout = Twitter()
	}
	if err := w.o.Layout.Validate(); err != nil {
		panic(err.Error())
	}
	room := int(min(w.o.Layout.Workers(), mostNumbers))
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

// mostNumbers is how many numbers a claim tries at most.
const mostNumbers = 1 << 22

// Claim leases a free number, and renews the lease until Release, or until the store has not
// answered for a lease. It tries the numbers in order from a random one; each costs one or two
// round trips. If all free numbers have times that their last holders reserved, it waits for the
// first of these times to pass, at most a lease. It returns [ErrNoWorker] if no number is free.
func (w *Workers) Claim(ctx context.Context) (*Held, error) {
	if err := w.numbers.Agree(ctx, w.o.Namespace, w.o.Layout); err != nil {
		return nil, fmt.Errorf("idgen: claim a worker number: %w", err)
	}
	for empty, lost := 0, 0; ; {
		h, wait, err := w.tryAll(ctx)
		if errors.Is(err, retrysafe.ErrLeaseLost) && lost < maxRounds {
			lost++ // no process has had the number, so another one will do
			continue
		}
		if h != nil || err != nil {
			return h, err
		}
		if wait == 0 { // other processes may just have been trying the free numbers
			if empty++; empty == maxRounds {
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

// maxRounds is how often a claim finds all numbers held, or loses a number again, before it gives
// up.
const maxRounds = 3

// tryAll tries all numbers once. If it gets none, reserved is the time until the first free number
// becomes available, or zero if no number is free.
func (w *Workers) tryAll(ctx context.Context) (h *Held, reserved time.Duration, err error) {
	begin := rand.IntN(w.o.Max)
	for i := range w.o.Max {
		h, ahead, err := w.tryClaim(ctx, (begin+i)%w.o.Max)
		if h != nil || err != nil {
			return h, 0, err
		}
		if ahead > 0 && ahead <= w.o.Lease+2*w.o.MaxSkew && (reserved == 0 || ahead < reserved) {
			// A longer time was reserved with a wrong clock.
			reserved = ahead
		}
	}
	return nil, reserved, nil
}

// tryClaim claims one number. It returns nil if another holder has the number. If its times are
// still reserved, it also returns for how long.
func (w *Workers) tryClaim(ctx context.Context, number int) (*Held, time.Duration, error) {
	now := w.o.Now
	if now == nil {
		clock := steadyClock()
		now = func() time.Time { return time.Unix(0, clock()) }
	}
	sent := now()
	taken, err := w.numbers.Claim(ctx, NumberRequest{Namespace: w.o.Namespace, Number: number, Lease: w.o.Lease})
	switch {
	case errors.Is(err, ErrTaken):
		return nil, 0, nil
	case err != nil:
		return nil, 0, fmt.Errorf("idgen: claim a worker number: %w", err)
	}
	h := &Held{claim: taken, layout: w.o.Layout, number: uint64(number), lease: w.o.Lease, now: now, done: make(chan struct{})} //nolint:gosec // not negative
	came := now()
	if early, late := taken.Now.Sub(came), sent.Sub(taken.Now); early > w.o.MaxSkew || late > w.o.MaxSkew {
		_ = taken.Release(ctx, "clock") // otherwise it expires
		return nil, 0, fmt.Errorf("%w: it is %v off; let both keep time by NTP", ErrClockOff, max(early, late).Round(time.Millisecond))
	}
	if ahead := taken.Reserved.Sub(taken.Now); ahead > w.o.MaxSkew {
		_ = taken.Release(ctx, "reserved")
		return nil, ahead, nil
	}
	h.lifeCtx, h.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := h.extend(ctx); err != nil { // reserve the times of the first ids
		h.stop()
		_ = taken.Release(context.WithoutCancel(ctx), "unreserved")
		return nil, 0, fmt.Errorf("idgen: reserve the times of a worker number: %w", err)
	}
	h.heartbeats.Add(1)
	go h.sendHeartbeats()
	return h, 0, nil
}

// Held is a leased number. Pass it to NewSnowflake, once.
type Held struct {
	claim  Claimed
	layout Layout
	number uint64
	lease  time.Duration
	now    func() time.Time
	until  atomic.Int64 // in nanoseconds since 1970
	used   atomic.Bool  // whether it has a generator

	lifeCtx    context.Context
	stop       context.CancelFunc
	heartbeats sync.WaitGroup
	done       chan struct{}
	once       sync.Once
}

// Number implements [Worker].
func (h *Held) Number() uint64 { return h.number }

// Fence returns a number that grows with each holder of the worker number.
func (h *Held) Fence() retrysafe.Fence { return h.claim.Fence }

// From implements [Worker]. Earlier holders may have made ids up to this time.
func (h *Held) From() time.Time { return h.claim.Reserved }

// Until implements [Worker].
func (h *Held) Until() time.Time { return time.Unix(0, h.until.Load()) }

// Done returns a channel that is closed when the number is not held any more: it was released, or
// its lease was lost. After that, only ids with times that were reserved before are made. Claim
// another number.
func (h *Held) Done() <-chan struct{} { return h.done }

// String returns a description for logs.
func (h *Held) String() string { return fmt.Sprintf("worker %d, fence %d", h.number, h.claim.Fence) }

// extend renews the lease and reserves the times up to its end. They count from when the call is
// sent, by this clock.
func (h *Held) extend(ctx context.Context) error {
	until := h.now().Add(h.lease)
	if last := h.Until(); !until.After(last) {
		// The clock was set back; the reserved time stays, and reservations keep growing.
		until = last.Add(1)
	}
	ctx, cancel := context.WithTimeout(ctx, h.lease/3)
	defer cancel()
	err := h.claim.Reserve(ctx, until, h.lease)
	if err == nil {
		h.until.Store(until.UnixNano())
	}
	return err
}

// sendHeartbeats extends the lease until it is lost or released.
func (h *Held) sendHeartbeats() {
	defer h.heartbeats.Done()
	every := h.lease / 3
	lives := time.Now()
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-h.lifeCtx.Done():
			return
		case <-h.claim.Lost:
			h.closeDone()
			return
		case <-timer.C:
		}
		began := time.Now()
		err := h.extend(h.lifeCtx)
		switch {
		case err == nil:
			lives = began
		case errors.Is(err, retrysafe.ErrLeaseLost), time.Since(lives) > h.lease:
			h.closeDone()
			return
		}
		next := every
		if err != nil {
			next = every / 4
		}
		timer.Reset(next)
	}
}

func (h *Held) closeDone() { h.once.Do(func() { close(h.done) }) }

// Release releases the number. Its generator may still make ids with times that were reserved; the
// next holder starts above them.
func (h *Held) Release(ctx context.Context) error {
	h.stop()
	h.heartbeats.Wait()
	defer h.closeDone()
	return h.claim.Release(ctx, "released")
}
