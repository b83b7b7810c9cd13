package retrysafe

import (
	"context"
	"errors"
	"sync"
	"time"
)

// life counts what Shutdown waits for: live attempts, answers that are still being stored, and
// claims that must be given back.
type life struct {
	mu       sync.Mutex
	closed   bool
	n        int
	idle     chan struct{} // made by close; closed when n is zero
	closing  chan struct{} // closed by close
	sweep    time.Duration
	sweeping bool
}

// enter counts one more. ok is false once the engine is closed. begin reports whether the caller
// should start the sweeper.
func (l *life) enter() (ok, begin bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false, false
	}
	l.n++
	begin, l.sweeping = !l.sweeping && l.sweep >= 0, true
	return true, begin
}

// isClosing reports whether close was called.
func (l *life) isClosing() bool {
	select {
	case <-l.closing:
		return true
	default:
		return false
	}
}

// count returns how many have not left.
func (l *life) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// stay counts one more for work that is already counted. It works after close too.
func (l *life) stay() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
}

func (l *life) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n--
	if l.n == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// close makes enter refuse. It returns a channel that is closed when all have left.
func (l *life) close() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.closing)
	}
	if l.n == 0 {
		through := make(chan struct{})
		close(through)
		return through
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	return l.idle
}

// background counts goroutines. It starts none after end.
type background struct {
	mu    sync.Mutex
	ended bool
	group sync.WaitGroup
}

// start runs f in a goroutine of its own. It returns false, and does not run f, once the engine has
// ended.
func (b *background) start(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return false
	}
	b.group.Go(f)
	return true
}

const shutdownGrace = time.Second

var errStoreHangs = errors.New("retrysafe: shutdown: calls of the store have not returned, though their contexts have ended")

// end starts no more goroutines, and waits for all of them until ctx ends, but at least for least.
// It reports whether all have ended.
func (b *background) end(ctx context.Context, least time.Duration) bool {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	through := make(chan struct{})
	go func() {
		b.group.Wait()
		close(through)
	}()
	t := time.NewTimer(least)
	defer t.Stop()
	select {
	case <-through:
		return true
	case <-t.C:
	}
	select {
	case <-through:
		return true
	case <-ctx.Done():
		return false
	}
}
