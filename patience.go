package retrysafe

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
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

// turn is what one caller asks of the store, in one call or several tries.
type turn struct {
	patience     *patience
	began        time.Time
	limit        time.Duration // of one call
	hasty, probe bool
}

// turn begins a turn. The caller ends it.
func (p *patience) turn() turn {
	t := turn{patience: p, began: time.Now(), limit: acquireLimit}
	switch {
	case !p.hangs.Load():
	case p.probing.CompareAndSwap(false, true):
		t.probe = true
	default:
		t.hasty, t.limit = true, hastyLimit
	}
	return t
}

// end ends a turn with the error of its last try.
func (t *turn) end(err error) {
	p, answered := t.patience, err == nil || !mayBeApplied(err)
	late := !answered && time.Since(t.began) >= acquireLimit
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

// over reports whether a turn is not to try again.
func (t *turn) over() bool { return t.hasty || time.Since(t.began) >= 2*acquireLimit }

// within returns the context of a call that has no limit of its own, unless the turn is hasty.
func (t *turn) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if !t.hasty {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, t.limit)
}

// askAgain makes a call until it is answered, at most a few times, as acquire does. The call keeps
// to the limit.
func (p *patience) askAgain(ctx context.Context, call func(limit time.Duration) error) (err error) {
	t := p.turn()
	defer func() { t.end(err) }()
	for try := range acquireTries {
		if try > 0 && (t.over() || !pause(ctx, time.Duration(try*try)*50*time.Millisecond)) {
			break
		}
		if err = call(t.limit); err == nil || !mayBeApplied(err) && !errors.Is(err, ErrTooLate) {
			break
		}
	}
	return err
}
