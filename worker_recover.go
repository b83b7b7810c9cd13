package retrysafe

import (
	"context"
	"errors"
	"time"
)

var errTooManyAttempts = errors.New("the call had as many attempts as its worker allows")

// finish takes over one record as it was seen, and runs its work. It reports the result to the
// record, the trace and the log.
func (w *Worker) finish(ctx context.Context, r *resumer, seen *Record, p *passing) {
	c := r.engine.c
	log := w.o.Logger.With("operation", r.name, "key", c.keyHash(seen.Key), "attempts", seen.Attempt)
	defer func() {
		if crash := recover(); crash != nil {
			// The attempt of work that panicked was finished as usual. The value of the panic may
			// be secret.
			p.unfinished.Add(1)
			log.Error("retrysafe: worker: the work has panicked")
		}
	}()
	rec, err := c.store.Lookup(ctx, seen.Key) // with its progress, which lists leave out
	if err != nil || rec.Fence != seen.Fence || rec.State != seen.State {
		return // the next pass sees the new state
	}
	progress, err := ProgressOf(&rec)
	switch {
	case err == nil && rec.Attempt-progress.Reopened >= w.o.MaxAttempts:
		if w.giveUp(ctx, r, &rec) {
			p.givenUp.Add(1)
			log.Warn("retrysafe: worker: given up after too many attempts; look at the key and settle it")
		}
		return
	case err != nil:
		log.Error("retrysafe: worker: the record cannot be gone on with", "error", err.Error())
		return
	case !r.asks(&rec) && progress.Input.Codec == "":
		return // its call stored no input
	}
	call := c.traceCall(&ctx, rec.Key)
	a, settled, err := r.take(ctx, &rec)
	if a == nil {
		call.done(outcome(err), rec.Attempt, err)
		if settled {
			p.finished.Add(1)
		}
		return
	}
	a.call, a.unattended = call, true
	if progress.Input.Codec == "" {
		// Reconcile says that nothing was done, and there is no input to run the work with: the
		// next call runs it.
		err = a.Release(ctx, nil)
		settled = err == nil
	} else {
		err = r.run(ctx, a, &progress.Input)
		var refused *Failure
		settled = err == nil || errors.As(err, &refused)
	}
	if settled {
		p.finished.Add(1)
		return
	}
	p.unfinished.Add(1)
}

// take acquires the record, after a call of Reconcile if the record needs one. Without an attempt,
// settled says whether Reconcile has finished the record.
func (r *resumer) take(ctx context.Context, rec *Record) (a *Attempt, settled bool, err error) {
	c := r.engine.c
	if !c.enter() {
		return nil, false, c.wrap(rec.Key, rec.Attempt, ErrClosed, time.Second)
	}
	defer func() {
		if a == nil { // also if Reconcile panics
			c.life.Leave()
		}
	}()
	if !r.asks(rec) {
		a, err = c.takeOver(ctx, rec, r.options, false)
		return a, false, err
	}
	v, err := c.reconcileToRun(ctx, rec, r.options)
	a = v.attempt
	return a, v.settled, err
}

// giveUp leaves the record in doubt, for an operator.
func (w *Worker) giveUp(ctx context.Context, r *resumer, rec *Record) bool {
	c := r.engine.c
	if !c.enter() {
		return false
	}
	a, err := c.takeOver(ctx, rec, r.options, true)
	if a == nil || err != nil {
		c.life.Leave()
		return false
	}
	return a.doubt(ctx, causeAttempts, errTooManyAttempts) == nil
}
