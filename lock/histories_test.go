package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/memlock"
)

// weather is a connection to a backend that loses or delays requests and answers, also until long
// after their caller has given up.
type weather struct {
	*memlock.Backend
	mu   sync.Mutex
	rand *rand.Rand
	bad  int // of a hundred calls
	late time.Duration
	all  *sync.WaitGroup

	passes *atomic.Int64
}

var errLine = errors.New("nobody knows what became of the call")

func (w *weather) decide() (drop, lose bool, delay, back time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delay, back = time.Duration(w.rand.Int64N(int64(2*time.Millisecond))), time.Duration(w.rand.Int64N(int64(2*time.Millisecond)))
	if w.rand.IntN(100) < w.bad {
		switch w.rand.IntN(4) {
		case 0:
			drop = true
		case 1:
			lose = true
		case 2:
			back = time.Duration(w.rand.Int64N(int64(w.late)))
		default:
			delay = time.Duration(w.rand.Int64N(int64(w.late)))
		}
	}
	return drop, lose, delay, back
}

// send makes a call over the connection. The call continues if its caller stops waiting.
func send[A any](ctx context.Context, w *weather, call func(context.Context) (A, error)) (A, error) {
	type answer struct {
		a   A
		err error
	}
	drop, lose, delay, back := w.decide()
	answers := make(chan answer, 1)
	w.all.Go(func() {
		time.Sleep(delay)
		if drop {
			return
		}
		a, err := call(context.WithoutCancel(ctx))
		time.Sleep(back)
		if !lose {
			answers <- answer{a, err}
		}
	})
	broken := time.NewTimer(w.late) // the client's own limit
	defer broken.Stop()
	var none A
	select {
	case got := <-answers:
		return got.a, got.err
	case <-broken.C:
		return none, errLine
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

func (w *weather) TryLock(ctx context.Context, r lock.Request) (lock.Grant, error) {
	return send(ctx, w, func(ctx context.Context) (lock.Grant, error) { return w.Backend.TryLock(ctx, r) })
}

func (w *weather) Extend(ctx context.Context, r lock.Request) error {
	_, err := send(ctx, w, func(ctx context.Context) (none struct{}, err error) { return none, w.Backend.Extend(ctx, r) })
	return err
}

func (w *weather) Unlock(ctx context.Context, r lock.Request) error {
	_, err := send(ctx, w, func(ctx context.Context) (none struct{}, err error) { return none, w.Backend.Unlock(ctx, r) })
	return err
}

func (w *weather) Pass(ctx context.Context, from, next lock.Request) (lock.Grant, error) {
	return send(ctx, w, func(ctx context.Context) (lock.Grant, error) {
		g, err := w.Backend.Pass(ctx, from, next)
		if err == nil {
			w.passes.Add(1)
		}
		return g, err
	})
}

// TestHistories: over such connections there are never two holders at once, each holder is notified
// of a loss before another one gets the lock, fences grow, and every caller finishes. Holders work
// for up to three leases, so that many lose the lock. Some processes have two callers, one of which
// passes the lock to the other.
func TestHistories(t *testing.T) {
	t.Parallel()
	var grants, losses, passes atomic.Int64
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				backend := memlock.New()
				var lines sync.WaitGroup
				var inside atomic.Int32
				var last atomic.Uint64
				var callers sync.WaitGroup
				for i := range uint64(4) {
					w := &weather{Backend: backend, rand: rand.New(rand.NewPCG(seed+1000, i)), bad: int(seed) % 50, late: 1500 * time.Millisecond, all: &lines, passes: &passes}
					l := lock.New(w, &lock.Options{Lease: time.Second, MaxHold: 2 * time.Second})
					var here sync.WaitGroup
					for j := range 1 + i%2 {
						random := rand.New(rand.NewPCG(seed, 10*i+j))
						here.Go(func() {
							for range 16 {
								held, err := l.Lock(t.Context(), "x")
								if err != nil {
									continue
								}
								grants.Add(1)
								if n := inside.Add(1); n != 1 {
									t.Errorf("%d holders at one time", n)
								}
								if before := retrysafe.Fence(last.Swap(uint64(held.Fence()))); before >= held.Fence() {
									t.Errorf("fence %d behind %d", held.Fence(), before)
								}
								work := time.Duration(random.Int64N(int64(3 * time.Second)))
								select {
								case <-time.After(work):
								case <-held.Done():
									losses.Add(1)
								}
								inside.Add(-1)
								_ = held.Release(t.Context())
							}
						})
					}
					callers.Go(func() {
						here.Wait()
						_ = l.Shutdown(context.Background())
					})
				}
				callers.Wait()
				lines.Wait()
			})
		})
	}
	t.Cleanup(func() {
		t.Logf("%d grants, %d of them lost while held, %d passed", grants.Load(), losses.Load(), passes.Load())
		if min(grants.Load(), losses.Load(), passes.Load()) == 0 {
			t.Error("the histories show nothing")
		}
	})
}
