package lock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestTurnThatComesAsTheWaitEnds: a waiter whose context has ended keeps a turn with a lock that it
// has or may have, so that its caller releases it, and passes any other turn on.
func TestTurnThatComesAsTheWaitEnds(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		got   turn
		keeps bool
	}{
		"the lock":       {turn{grant: &Grant{Fence: 7}, requestedAt: time.Unix(1, 0)}, true},
		"maybe the lock": {turn{requestedAt: time.Unix(1, 0)}, true},
		"only the turn":  {turn{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var q nameQueues
				assert.True(t, q.tryTurn("x"), "the first caller")
				ctx, cancel := context.WithCancel(t.Context())
				type answer struct {
					got turn
					err error
				}
				ended := make(chan answer, 1)
				go func() {
					got, err := q.waitTurn(ctx, t.Context(), Request{Name: "x"})
					ended <- answer{got, err}
				}()
				synctest.Wait()
				next := q.removeNext("x")
				q.mu.Lock() // the waiter wakes by its context, and finds the turn
				cancel()
				next.turn <- one.got
				q.mu.Unlock()
				a := <-ended
				if a.err == nil {
					assert.Equal(t, a.got, one.got, "the turn")
				}
				assert.True(t, a.err == nil || !one.keeps, "the turn is lost: %v", a.err)
				assert.Equal(t, q.tryTurn("x"), a.err != nil, "the turn was passed on")
			})
		})
	}
}

// refusing is a backend whose calls fail with err.
type refusing struct{ err error }

func (r refusing) TryLock(context.Context, Request) (Grant, error) { return Grant{}, r.err }
func (r refusing) Wait(context.Context, Request) error             { return r.err }
func (r refusing) Extend(context.Context, Request) error           { return r.err }
func (r refusing) Unlock(context.Context, Request) error           { return r.err }

func (r refusing) Pass(context.Context, Request, Request) (Grant, error) { return Grant{}, r.err }

// TestPassWithoutAnAnswer: after a pass that may have been done, the next caller's turn says so.
func TestPassWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for err, maybe := range map[error]bool{errors.New("cut"): true, errors.ErrUnsupported: false} {
		synctest.Test(t, func(t *testing.T) {
			l := New(refusing{err}, nil)
			got, failed := l.passLock(newRequest("x", time.Minute), newRequest("x", time.Minute))
			assert.ErrorIs(t, failed, err, "passLock")
			assert.True(t, got.grant == nil && got.requestedAt.IsZero() != maybe, "%v: the turn is %+v", err, got)
		})
	}
}
