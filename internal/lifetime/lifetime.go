// Package lifetime is the life of an engine: it counts what Shutdown waits for, and runs goroutines
// in the background until the end.
package lifetime

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrClosed means that the engine is shut down.
var ErrClosed = errors.New("the engine is shut down")

// ErrStoreHangs means that calls of the store go on although their contexts have ended.
var ErrStoreHangs = errors.New("retrysafe: shutdown: calls of the store have not returned, though their contexts have ended")

// Life counts live attempts, answers that are still being stored, and claims that must be given
// back. Methods may be called concurrently.
type Life struct {
	mu     sync.Mutex
	closed bool
	count  int
	idle   chan struct{} // made by Close; closed when n is zero

	closing chan struct{} // closed by Close

	// ctx ends when Shutdown stops waiting, or has finished. Goroutines in the background stop
	// then.
	ctx        context.Context
	stop       context.CancelFunc
	background struct {
		mu    sync.Mutex
		ended bool
		group sync.WaitGroup
	}
}

// New returns a life that has begun.
func New() *Life {
	l := &Life{closing: make(chan struct{})}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// Enter counts one more. It returns false, and counts nothing, once the engine is closed.
func (l *Life) Enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.count++
	return true
}

// EnterAgain counts one more for work that is already counted. It works after Close too.
func (l *Life) EnterAgain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
}

// Leave counts one less.
func (l *Life) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count--
	if l.count == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// Count returns how many have not left.
func (l *Life) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// Closing returns a channel that is closed when Close is called.
func (l *Life) Closing() <-chan struct{} { return l.closing }

// IsClosing reports whether Close was called.
func (l *Life) IsClosing() bool {
	select {
	case <-l.closing:
		return true
	default:
		return false
	}
}

// Close makes Enter refuse. It returns a channel that is closed when all have left.
func (l *Life) Close() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.closing)
	}
	if l.count == 0 {
		through := make(chan struct{})
		close(through)
		return through
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	return l.idle
}

// Context returns a context that ends with the engine.
func (l *Life) Context() context.Context { return l.ctx }

// Go runs f in a goroutine of its own. It returns false, and does not run f, once the engine has
// ended.
func (l *Life) Go(f func()) bool {
	b := &l.background
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return false
	}
	b.group.Go(f)
	return true
}

// Sleep waits for d. It returns false if the engine ends first.
func (l *Life) Sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// grace is how long End waits at least: a store call may go on for a moment.
const grace = time.Second

// End ends the context, starts no more goroutines, and waits for all of them until ctx ends, but at
// least for a second. It returns ErrStoreHangs if some have not ended.
func (l *Life) End(ctx context.Context) error {
	l.stop()
	b := &l.background
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	through := make(chan struct{})
	go func() {
		b.group.Wait()
		close(through)
	}()
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-through:
		return nil
	case <-t.C:
	}
	select {
	case <-through:
		return nil
	case <-ctx.Done():
		return ErrStoreHangs
	}
}
