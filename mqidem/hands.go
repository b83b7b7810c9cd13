package mqidem

import (
	"fmt"
	"runtime"
	"sync"
)

// hands are goroutines that run handlers. A handler may end its goroutine with runtime.Goexit, so
// it cannot run on that of a worker. A hand is used again as long as its handlers return: its stack
// has grown by then. All methods may be called concurrently. A nil *hands uses a new goroutine for
// each call.
type hands struct {
	mu    sync.Mutex // guards the fields below
	idle  []*hand
	ended bool
}

// hand is one goroutine. It ends when work is closed.
type hand struct {
	work  chan func() error
	ended chan outcomeOfCall
}

// outcomeOfCall is the outcome of a call. exited is set if the goroutine is gone.
type outcomeOfCall struct {
	err    error
	exited bool
}

// call runs h and turns a panic or a Goexit into an error. A Goexit ends only the hand.
func (hs *hands) call(h func() error) error {
	w := hs.take()
	w.work <- h
	r := <-w.ended
	if !r.exited {
		hs.give(w)
	}
	return r.err
}

// each calls f with 0 to n-1, each on a hand of its own, and returns when all have returned. f must
// not panic.
func (hs *hands) each(n int, f func(int)) {
	ws := make([]*hand, n)
	for i := range ws {
		ws[i] = hs.take()
		ws[i].work <- func() error { f(i); return nil }
	}
	for _, w := range ws {
		r := <-w.ended
		if r.err != nil {
			panic(r.err)
		}
		hs.give(w)
	}
}

func (hs *hands) take() *hand {
	if hs != nil {
		hs.mu.Lock()
		defer hs.mu.Unlock()
		if n := len(hs.idle); n > 0 {
			w := hs.idle[n-1]
			hs.idle = hs.idle[:n-1]
			return w
		}
	}
	w := &hand{work: make(chan func() error), ended: make(chan outcomeOfCall, 1)}
	go w.run()
	return w
}

func (hs *hands) give(w *hand) {
	if hs != nil {
		hs.mu.Lock()
		defer hs.mu.Unlock()
		if !hs.ended {
			hs.idle = append(hs.idle, w)
			return
		}
	}
	close(w.work)
}

// end ends the idle hands now, and the others when their handlers return.
func (hs *hands) end() {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.ended = true
	for _, w := range hs.idle {
		close(w.work)
	}
	hs.idle = nil
}

func (w *hand) run() {
	exited := true
	defer func() {
		if exited {
			w.ended <- outcomeOfCall{errExited, true}
		}
	}()
	for h := range w.work {
		w.ended <- outcomeOfCall{err: guarded(h)}
	}
	exited = false
}

// guarded calls h and turns a panic into an error.
func guarded(h func() error) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case runtime.Error:
			err = fmt.Errorf("%w: %w", errPanicked, v)
		default:
			err = fmt.Errorf("%w with a %T", errPanicked, v)
		}
	}()
	return h()
}
