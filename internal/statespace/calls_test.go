//go:build !race

package statespace_test

import (
	"errors"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// What callers do, by the engine's rules.

func (w *world) begin(c *call, arg uint8) {
	if !c.operator {
		c.policy = w.policies[arg]
	} else {
		c.ifFence, c.force = w.store.lookup().Fence, arg == 1
	}
	c.phase = acquiring
	w.ask(c)
}

// ask sends an Acquire.
func (w *world) ask(c *call) {
	limit := w.store.now() + w.window
	if w.rand != nil {
		limit += w.rand.Int64N(w.window+1) - w.window/2 // the estimate of the store's clock is off
	}
	c.notAfter[c.tries] = limit
	c.flight |= try1 << c.tries
	c.tries++
	c.open = true
}

// unanswered is E2: the caller stops listening to its last try, which may still be applied.
func (w *world) unanswered(c *call) {
	if c.open {
		c.unanswered = max(c.unanswered, c.notAfter[c.tries-1])
		c.open = false
	}
}

func (w *world) crash(c *call) {
	c.phase, c.crashed, c.open, c.unanswered, c.giving = gone, true, false, 0, 0
}

// reclaim is E2 after the time limit: a look at the record, and then a give-back of a claim that no
// caller was given. An operator's claim goes back into doubt, since the attempt before it may have
// taken effect.
func (w *world) reclaim(c *call, intoDoubt bool) {
	if c.giving == 0 {
		rec := w.store.lookup()
		told := (rec.Fence == c.fence || rec.Fence == c.returned) && !w.rules.reclaimsAll
		if rec.State != storeapi.StateInProgress || rec.Owner != c.owner() || told {
			c.unanswered = 0
			return
		}
		c.giving, c.unanswered = rec.Fence, 0
		c.intoDoubt = intoDoubt || c.operator && !w.rules.opensDoubt
	}
	c.flight |= giveBack
}

// start begins the work at once: a caller that is paused before it begins is like one that is
// paused after.
func (w *world) start(c *call) {
	for i := range w.calls {
		o := &w.calls[i]
		if o != c && o.started && o.binds() && o.life == c.life && !c.excused {
			w.fail(oneStart, "%s starts although %s has started and may have acted", c, o)
		}
	}
	c.started = true
}

// write is the work's effect at a resource that refuses fences smaller than the largest that it has
// seen.
func (w *world) write(c *call) {
	r := &w.resource
	accepted := c.fence >= r.fence
	switch {
	case accepted && c.win < r.win:
		w.fail(fenced, "the resource takes the write of win %d after that of win %d", c.win, r.win)
	case !accepted && c.win > r.win:
		w.fail(fenced, "the resource refuses the write of win %d after that of win %d", c.win, r.win)
	case accepted:
		r.fence, r.win = c.fence, c.win
	}
	c.wrote = true
}

func (w *world) decide(c *call, d decision) {
	c.ending, c.phase = d, ending
	c.flight |= end
	switch {
	case d == failed:
		c.inert = true
	case d == nothing && c.operator && !c.started:
		w.allow(c)
	case d == nothing:
		// Under Reexecute a release says less than that, and a single start is not promised either.
		c.inert = c.record == storeapi.Refuse
	}
}

// allow: the operator lets it run again, whatever the outcome of the first attempt. From now on two
// starts are allowed.
func (w *world) allow(c *call) {
	for i := range w.calls {
		if o := &w.calls[i]; o.life == c.life {
			o.excused = true
		}
	}
	if c.life == w.seen.life {
		w.seen.allowed = true
	}
}

// startAsAllowed: an operator who only asked learns that nothing was done, and does the work
// itself.
func (w *world) startAsAllowed(c *call) {
	w.allow(c)
	w.start(c)
}

// deliver lets a request reach the store.
func (w *world) deliver(c *call, f flight, how uint8) {
	if how&copied == 0 {
		c.flight &^= f
	} else {
		w.dupsLeft--
		if f&acquires != 0 {
			// E2 follows tries without an answer, not copies of answered ones
			w.seen.ghosts = true
		}
	}
	if f&acquires != 0 {
		got, err := w.acquire(c, f)
		w.result = result{got.Status, got.Record.Fence, err}
		if how&heard != 0 {
			w.hear(c, &got, err)
		}
		return
	}
	before := w.store.lookup()
	h := c.holder()
	var err error
	switch {
	case f == extend, f == works:
		err = w.store.extend(h, micros(w.lease), f == works)
	case f == giveBack:
		h = holder{owner: c.owner(), fence: c.giving}
		err = w.store.release(h, c.intoDoubt)
	case f == stray:
		err = w.store.release(h, false)
	case c.ending == done:
		err = w.store.complete(h, storeapi.StateCompleted, c.body(done))
	case c.ending == failed:
		err = w.store.complete(h, storeapi.StateFailed, c.body(failed))
	default:
		err = w.store.release(h, c.ending == doubt)
	}
	w.result = result{fence: h.fence, err: err}
	w.applied(&h, &before)
	if how&heard != 0 {
		w.settled(c, f, err)
	}
}

// settled: the call knows the outcome of its ending or of its give-back.
func (w *world) settled(c *call, f flight, err error) {
	switch f {
	case giveBack:
		if err == nil && c.intoDoubt {
			c.returned = c.giving // it stays in progress and in doubt, and that is known
		}
		c.giving = 0
	case works:
		if err == nil && !c.started {
			w.startAsAllowed(c)
		}
	case end:
		c.phase = gone
		if err == nil && (c.ending == done || c.ending == failed) {
			w.tell(c, c.body(c.ending))
		}
	}
}

func (w *world) acquire(c *call, f flight) (storeapi.Acquired, error) {
	before := w.store.lookup()
	limit := c.notAfter[0]
	for t := range maxTries {
		if f == try1<<t {
			limit = c.notAfter[t]
		}
	}
	got, err := w.store.acquire(storeapi.AcquireRequest{
		Owner: c.owner(), OnDoubt: c.policy, Lease: micros(w.lease), Retention: micros(w.retention),
		NotAfter: protocol.Time(limit), IfFence: c.ifFence, Force: c.force, Asks: c.operator,
	})
	if err == nil && got.Status == storeapi.StatusAcquired && (before.State != storeapi.StateInProgress || before.Owner != c.owner()) {
		w.won(c, &before, &got.Record)
	}
	return got, err
}

// hear receives the answer to the last try.
func (w *world) hear(c *call, got *storeapi.Acquired, err error) {
	c.open = false
	if err == nil && (w.rules.forgetsTries || w.rules.forgetsAtWin && got.Status == storeapi.StatusAcquired) {
		c.unanswered = 0
	}
	switch {
	case errors.Is(err, storeapi.ErrTooLate):
		return // it may ask again
	case err != nil:
		w.fail(answers, "Acquire: %v", err)
	case got.Status == storeapi.StatusAcquired:
		c.phase, c.fence, c.attempt, c.record = running, got.Record.Fence, uint8(got.Record.Attempt), got.Record.OnDoubt
		c.life, c.win, c.excused = w.seen.life, w.seen.wins, w.seen.allowed
		if !c.operator {
			w.start(c)
		}
	case got.Status == storeapi.StatusInProgress: // it may wait, and ask again
	default:
		c.phase = gone
		if got.Status == storeapi.StatusFinished {
			w.tell(c, got.Record.Answer.Body)
		}
	}
}
