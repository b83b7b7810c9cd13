package mqidem

import (
	"context"
	"sync"
	"sync/atomic"
)

// Prefetch is the queue of a [Source] between its one goroutine that fetches messages and the calls
// of Receive. It bounds how many messages are fetched ahead, and ends in order: after End no call
// of Receive returns a message, so that the source can return all that it holds to the broker. All
// methods may be called concurrently.
//
// The fetching goroutine asks Room how many messages to fetch, and passes each to Put. If Room is
// zero, it waits for Woken.
type Prefetch struct {
	ahead   atomic.Int64
	waiting atomic.Int64 // calls of Receive
	wake    chan struct{}
	ready   chan Delivery
	ended   chan struct{}

	mu    sync.Mutex
	final error // why no more messages come
}

// NewPrefetch returns a queue that fetches up to ahead messages beyond those that calls of Receive
// wait for, and no more than most at once.
func NewPrefetch(ahead, most int) *Prefetch {
	p := &Prefetch{wake: make(chan struct{}, 1), ready: make(chan Delivery, 2*most), ended: make(chan struct{})}
	p.ahead.Store(int64(ahead))
	return p
}

// Ahead raises the number of messages to fetch ahead to n, for an implementation of [Batched].
func (p *Prefetch) Ahead(n int) {
	for {
		now := p.ahead.Load()
		if int64(n) <= now {
			return
		}
		if p.ahead.CompareAndSwap(now, int64(n)) {
			p.Wake()
			return
		}
	}
}

// Receive waits for a message. It returns the error of ctx or the one that End was called with.
func (p *Prefetch) Receive(ctx context.Context) (Delivery, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	p.Wake()
	if err := p.Err(); err != nil { // messages that were ready are returned to the broker
		return nil, err
	}
	select {
	case d := <-p.ready:
		p.Wake() // there may be room
		return d, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.ended:
		return nil, p.Err()
	}
}

// Room returns how many messages to fetch now, if requested ones were asked for and have not come,
// and at most most may be fetched at once. It returns zero while more than half of the room is
// taken, so that the source does not ask for each message separately.
func (p *Prefetch) Room(requested, most int) int {
	all := int(min(p.waiting.Load()+p.ahead.Load(), int64(most)))
	room := all - len(p.ready) - requested
	if room <= 0 || 2*room < all {
		return 0
	}
	return room
}

// Put makes a message ready. If ctx ends first, the message is not queued. The source keeps track
// of the message either way, to return it to the broker at the end.
func (p *Prefetch) Put(ctx context.Context, d Delivery) {
	select {
	case p.ready <- d:
	case <-ctx.Done():
	}
}

// Wake makes Woken ready once. Calls of Receive do it too.
func (p *Prefetch) Wake() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Woken receives a value when Room may have changed.
func (p *Prefetch) Woken() <-chan struct{} { return p.wake }

// End ends all calls of Receive with why. Only the first call counts.
func (p *Prefetch) End(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.final == nil {
		p.final = why
		close(p.ended)
	}
}

// Ended is closed when End was called.
func (p *Prefetch) Ended() <-chan struct{} { return p.ended }

// Err returns what End was first called with, or nil.
func (p *Prefetch) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.final
}
