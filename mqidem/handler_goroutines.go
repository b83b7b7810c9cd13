package mqidem

import (
	"fmt"
	"runtime"
	"sync"
)

// handlerPool runs handlers on goroutines of its own. A handler may end its goroutine with
// runtime.Goexit, so it cannot run on that of a worker. A goroutine is used again as long as its
// handlers return: its stack has grown by then. All methods may be called concurrently. A nil
// *handlerPool uses a new goroutine for each call.
type handlerPool struct {
	mu     sync.Mutex // guards the fields below
	idle   []*handlerGoroutine
	closed bool
}

// handlerGoroutine is one goroutine. It ends when calls is closed.
type handlerGoroutine struct {
	calls   chan func() error
	results chan callResult
}

// callResult is the outcome of a call. exited is set if the goroutine is gone.
type callResult struct {
	err    error
	exited bool
}

// callGuarded runs h and turns a panic or a Goexit into an error. A Goexit ends only that
// goroutine.
func (hs *handlerPool) callGuarded(h func() error) error {
	w := hs.borrow()
	w.calls <- h
	r := <-w.results
	if !r.exited {
		hs.giveBack(w)
	}
	return r.err
}

// callEach calls f with 0 to n-1, each on a goroutine of its own, and returns when all have
// returned. f must not panic.
func (hs *handlerPool) callEach(n int, f func(int)) {
	ws := make([]*handlerGoroutine, n)
	for i := range ws {
		ws[i] = hs.borrow()
		ws[i].calls <- func() error { f(i); return nil }
	}
	for _, w := range ws {
		r := <-w.results
		if r.err != nil {
			panic(r.err)
		}
		hs.giveBack(w)
	}
}

func (hs *handlerPool) borrow() *handlerGoroutine {
	if hs != nil {
		hs.mu.Lock()
		defer hs.mu.Unlock()
		if n := len(hs.idle); n > 0 {
			w := hs.idle[n-1]
			hs.idle = hs.idle[:n-1]
			return w
		}
	}
	w := &handlerGoroutine{calls: make(chan func() error), results: make(chan callResult, 1)}
	go w.runCalls()
	return w
}

func (hs *handlerPool) giveBack(w *handlerGoroutine) {
	if hs != nil {
		hs.mu.Lock()
		defer hs.mu.Unlock()
		if !hs.closed {
			hs.idle = append(hs.idle, w)
			return
		}
	}
	close(w.calls)
}

// close ends the idle goroutines now, and the others when their handlers return.
func (hs *handlerPool) close() {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.closed = true
	for _, w := range hs.idle {
		close(w.calls)
	}
	hs.idle = nil
}

func (w *handlerGoroutine) runCalls() {
	exited := true
	defer func() {
		if exited {
			w.results <- callResult{errExited, true}
		}
	}()
	for h := range w.calls {
		w.results <- callResult{err: callWithRecover(h)}
	}
	exited = false
}

// callWithRecover calls h and turns a panic into an error.
func callWithRecover(h func() error) (err error) {
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
