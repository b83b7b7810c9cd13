package storecall

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
)

// hastyLimit is how long a call waits for a store that hangs.
const hastyLimit = time.Second

// patience knows whether the store hangs: it takes calls and answers none. Without it each caller
// would wait ten seconds for the error that the store is away.
//
// The store hangs once a call got no answer in the time that it has. From then on one call at a
// time waits as long as before, to see whether the store is back, and all others give up after
// hastyLimit. They are sent nevertheless, since a store may have parts, and only one of them may
// hang. One answer to the call that waits ends this, so a store that is merely slow is not given
// up.
type patience struct {
	logger  *slog.Logger
	hangs   atomic.Bool
	probing atomic.Bool // a call waits as long as before
	warned  atomic.Bool // the operator knows
}

// Turn is what one caller asks of the store, in one call or several tries.
type Turn struct {
	patience     *patience
	began        time.Time
	limit        time.Duration // of one call
	hasty, probe bool
}

// BeginTurn begins a turn. The caller ends it.
func (s *Store) BeginTurn() Turn {
	p := &s.patience
	t := Turn{patience: p, began: time.Now(), limit: Limit}
	switch {
	case !p.hangs.Load():
	case p.probing.CompareAndSwap(false, true):
		t.probe = true
	default:
		t.hasty, t.limit = true, hastyLimit
	}
	return t
}

// End ends a turn with the error of its last try.
func (t *Turn) End(err error) {
	p, answered := t.patience, err == nil || !MayBeApplied(err)
	late := !answered && time.Since(t.began) >= Limit
	switch {
	case t.hasty:
	case !t.probe && late:
		p.hangs.Store(true)
	case t.probe && late && !p.warned.Swap(true):
		// the first call may have waited for its key alone
		p.logger.Warn("retrysafe: the store takes calls and does not answer; until it does, one call at a time waits for it, and others fail after a second")
	case t.probe && answered:
		if p.hangs.Store(false); p.warned.Swap(false) {
			p.logger.Info("retrysafe: the store answers again")
		}
	}
	if t.probe {
		p.probing.Store(false)
	}
}

// Over reports whether a turn is not to try again.
func (t *Turn) Over() bool { return t.hasty || time.Since(t.began) >= 2*Limit }

// Within returns the context of a call that has no limit of its own, unless the turn is hasty.
func (t *Turn) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	if !t.hasty {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, t.limit)
}

// AskAgain makes a call until it is answered, at most a few times, as a claim is. The call keeps
// to the limit.
func (s *Store) AskAgain(ctx context.Context, call func(limit time.Duration) error) (err error) {
	t := s.BeginTurn()
	defer func() { t.End(err) }()
	for try := range Tries {
		if try > 0 && (t.Over() || !Pause(ctx, time.Duration(try*try)*50*time.Millisecond)) {
			break
		}
		if err = call(t.limit); err == nil || !MayBeApplied(err) && !errors.Is(err, storeapi.ErrTooLate) {
			break
		}
	}
	return err
}
