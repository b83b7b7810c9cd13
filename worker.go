package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/internal/journal"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// WorkerOptions configure a [Worker]. A nil *WorkerOptions and zero fields select the defaults.
type WorkerOptions struct {
	// Every is how often Run looks for abandoned calls; default 10 s, varied by up to half.
	Every time.Duration
	// Rate is how many calls begin in a second, at most; default 10.
	Rate float64
	// Concurrency is how many run at once, at most; default 4.
	Concurrency int
	// MinWait is how long a call rests after its first attempt was given up or its lease has
	// expired; default 1 s. Each further attempt doubles it, up to MaxWait; default 5 min.
	MinWait, MaxWait time.Duration
	// MaxAttempts is how many attempts a call may have had, those of its callers included; default
	// 10. Calls of Reconcile do not count, nor does what came before [Resolution].Reopen. A call
	// that had this many is left in doubt with the cause "attempts". The worker reports it to
	// [Trace].InDoubt and to Logger, and no worker takes it over again.
	MaxAttempts int
	// Logger receives what the worker gives up, and failures of the store; default slog.Default().
	// It gets hashes of keys, never the keys.
	Logger *slog.Logger
}

// Validate returns an error that says what is wrong with o, or nil. [NewWorker] panics with that
// error.
func (o *WorkerOptions) Validate() error {
	if o == nil {
		return nil
	}
	if o.Every < 0 || o.Rate < 0 || o.Concurrency < 0 || o.MinWait < 0 || o.MaxWait < 0 || o.MaxAttempts < 0 {
		return errors.New("retrysafe: worker: an option is negative; leave it zero for its default")
	}
	return nil
}

// Worker finishes calls that were abandoned: their process died or gave them up, and no caller
// retries them. It works from their records, which have the input and the steps that were done. It
// handles only the operations that it was given.
//
// A call under [Reexecute] runs again if its lease has expired, or if it was put in doubt or
// released with its input stored. Calls run in the order of the store's lists, and each continues
// after the steps that were done. For a call in doubt under [Refuse] the worker calls
// [Policy].Reconcile, if there is one, and runs the call only if the outcome is that nothing was
// done. A call that was released under Refuse runs when its caller calls it again, since that
// caller knows that nothing happened. If Reconcile, [Engine.Resolve] or a worker released it, it
// has no such caller, and the worker runs it. Any number of processes may have workers: the lease
// decides which one runs a call.
type Worker struct {
	o        WorkerOptions
	resumers []*resumer
	slots    chan struct{}

	mu        sync.Mutex
	nextBegin time.Time // when the next call may begin
}

// NewWorker returns a worker for operations. It panics on options that [WorkerOptions.Validate]
// refuses, and on an operation that does not store its input.
func NewWorker(o *WorkerOptions, operations ...Resumable) *Worker {
	if err := o.Validate(); err != nil {
		panic(err)
	}
	w := new(Worker)
	if o != nil {
		w.o = *o
	}
	setDefault(&w.o.Every, 10*time.Second)
	setDefault(&w.o.Rate, 10)
	setDefault(&w.o.Concurrency, 4)
	setDefault(&w.o.MinWait, time.Second)
	setDefault(&w.o.MaxWait, 5*time.Minute)
	setDefault(&w.o.MaxAttempts, 10)
	if w.o.Logger == nil {
		w.o.Logger = slog.Default()
	}
	w.slots = make(chan struct{}, w.o.Concurrency)
	for _, op := range operations {
		w.resumers = append(w.resumers, op.resumer())
	}
	return w
}

// Passed is the result of one pass of a worker.
type Passed struct {
	// Found is how many abandoned calls it could have finished. Early is how many of these had to
	// rest longer.
	Found, Early int
	// Finished is how many calls now have an answer or a refusal. Unfinished is how many were begun
	// and are left for another pass.
	Finished, Unfinished int
	// GivenUp is how many calls had too many attempts.
	GivenUp int
	// Unreadable is how many records this build cannot read, since they are of a newer version or
	// damaged. A worker of a newer build handles the former.
	Unreadable int
}

type passCounts struct{ found, early, finished, unfinished, givenUp, unreadable atomic.Int64 }

func (p *passCounts) toPassed() Passed {
	return Passed{int(p.found.Load()), int(p.early.Load()), int(p.finished.Load()), int(p.unfinished.Load()), int(p.givenUp.Load()), int(p.unreadable.Load())}
}

// Run looks for abandoned calls, again and again, until ctx ends. Then it begins nothing more,
// waits for what it has begun, and returns nil. If the store is away, Run logs that and looks again
// later. Any other end is an error: one that wraps errors.ErrUnsupported if the store does not
// list, or [ErrClosed] after Shutdown.
func (w *Worker) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		err := w.beginDue(ctx, new(passCounts), all.Go)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errors.ErrUnsupported), errors.Is(err, ErrClosed):
			return err
		case err != nil:
			w.o.Logger.Warn("retrysafe: worker: it looks again", "error", err.Error())
		}
		if !storecall.Pause(ctx, w.o.Every/2+rand.N(w.o.Every)) {
			return nil
		}
	}
}

// Pass looks for abandoned calls once, and returns when all that it has begun has ended. Errors are
// those of Run, and [ErrUnavailable].
func (w *Worker) Pass(ctx context.Context) (Passed, error) {
	var all sync.WaitGroup
	var p passCounts
	err := w.beginDue(ctx, &p, all.Go)
	all.Wait()
	return p.toPassed(), err
}

// beginDue begins the calls that are due.
func (w *Worker) beginDue(ctx context.Context, p *passCounts, begin func(func())) error {
	for _, r := range w.resumers {
		c := r.engine.c
		lister, ok := c.store.Inner().(storeapi.Lister)
		if !ok {
			return &Error{Op: r.name, Err: fmt.Errorf("the store does not list records: %w", errors.ErrUnsupported)}
		}
		for _, of := range []storeapi.ListRequest{{InDoubt: true}, {State: StateReleased}} {
			of.Namespace, of.Layer, of.Operation, of.Progress = c.namespace, r.engine.layer, r.name, true
			for more := true; more; more = of.After != "" {
				page, err := lister.List(ctx, of)
				if err != nil {
					return &Error{Op: r.name, Err: storecall.Unavailable(err), RetryAfter: time.Second}
				}
				for i := range page.Unreadable {
					p.unreadable.Add(1)
					w.o.Logger.Warn("retrysafe: worker: a record is left out, since this build cannot read it", "operation", r.name,
						"key", c.keyHash(page.Unreadable[i].Key), "error", page.Unreadable[i].Err)
				}
				for i := range page.Records {
					if c.life.IsClosing() {
						return &Error{Op: r.name, Err: ErrClosed}
					}
					if err := w.beginIfDue(ctx, r, &page.Records[i], p, begin); err != nil {
						return err
					}
				}
				of.After = page.Next
			}
		}
	}
	return nil
}

// beginIfDue begins the call of one record, if this worker handles it and it is due. The error is
// the context's.
func (w *Worker) beginIfDue(ctx context.Context, r *resumer, rec *Record, p *passCounts, begin func(func())) error {
	asks := r.needsReconcile(rec)
	switch {
	case rec.Cause == causeAttempts,
		asks && r.options.policy.Reconcile == nil,
		!asks && rec.Answer.Codec != journal.Codec,
		r.callerKnows(rec):
		return nil
	}
	p.found.Add(1)
	if w.mustRest(rec, r.options.policy) {
		p.early.Add(1)
		return nil
	}
	if err := w.waitForTurn(ctx); err != nil {
		return err
	}
	seen := *rec
	begin(func() {
		defer func() { <-w.slots }()
		w.finishCall(context.WithoutCancel(ctx), r, &seen, p)
	})
	return nil
}

// needsReconcile reports whether a record may run again only after Reconcile has said so.
func (r *resumer) needsReconcile(rec *Record) bool { return rec.InDoubt() && r.refusesReexecution(rec) }

// callerKnows reports whether a caller knows that nothing happened, and may have done something
// else since.
func (r *resumer) callerKnows(rec *Record) bool {
	told := rec.Cause != causeUnattended && rec.Cause != causeResolved
	return rec.State == StateReleased && told && r.refusesReexecution(rec)
}

func (r *resumer) refusesReexecution(rec *Record) bool {
	return rec.OnDoubt != Reexecute || r.options.policy.OnDoubt != Reexecute
}

// mustRest reports whether a record has to rest longer since it was given up, or since its lease
// expired.
func (w *Worker) mustRest(rec *Record, p *Policy) bool {
	since := rec.Updated
	if rec.State == StateInProgress && rec.Cause == "" {
		since = since.Add(p.Lease)
	}
	rest := w.o.MinWait
	for range rec.Attempt - 1 {
		if rest *= 2; rest >= w.o.MaxWait {
			break
		}
	}
	return rec.Now.Before(since.Add(min(rest, w.o.MaxWait)))
}

// waitForTurn waits until another call may begin, by Rate and by Concurrency.
func (w *Worker) waitForTurn(ctx context.Context) error {
	w.mu.Lock()
	now := time.Now()
	if w.nextBegin.Before(now) {
		w.nextBegin = now
	}
	wait := w.nextBegin.Sub(now)
	w.nextBegin = w.nextBegin.Add(time.Duration(float64(time.Second) / w.o.Rate))
	w.mu.Unlock()
	if wait > 0 && !storecall.Pause(ctx, wait) {
		return context.Cause(ctx)
	}
	select {
	case w.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errTooManyAttempts = errors.New("the call had as many attempts as its worker allows")

// finishCall takes over one record as it was seen, and runs its work. It reports the result to the
// record, the trace and the log.
func (w *Worker) finishCall(ctx context.Context, r *resumer, seen *Record, p *passCounts) {
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
		if w.giveUpRecord(ctx, r, &rec) {
			p.givenUp.Add(1)
			log.Warn("retrysafe: worker: given up after too many attempts; look at the key and settle it")
		}
		return
	case err != nil:
		log.Error("retrysafe: worker: the record cannot be gone on with", "error", err.Error())
		return
	case !r.needsReconcile(&rec) && progress.Input.Codec == "":
		return // its call stored no input
	}
	call := c.traceCall(&ctx, rec.Key)
	a, finished, err := r.acquireRecord(ctx, &rec)
	if a == nil {
		call.reportEnd(outcomeName(err), rec.Attempt, err)
		if finished {
			p.finished.Add(1)
		}
		return
	}
	a.call, a.unattended = call, true
	if progress.Input.Codec == "" {
		// Reconcile says that nothing was done, and there is no input to run the work with: the
		// next call runs it.
		err = a.Release(ctx, nil)
		finished = err == nil
	} else {
		err = r.run(ctx, a, &progress.Input)
		var refused *Failure
		finished = err == nil || errors.As(err, &refused)
	}
	if finished {
		p.finished.Add(1)
		return
	}
	p.unfinished.Add(1)
}

// acquireRecord acquires the record, after a call of Reconcile if the record needs one. Without an
// attempt, finished says whether Reconcile has finished the record.
func (r *resumer) acquireRecord(ctx context.Context, rec *Record) (a *Attempt, finished bool, err error) {
	c := r.engine.c
	if !c.enterCall() {
		return nil, false, c.wrapError(rec.Key, rec.Attempt, ErrClosed, time.Second)
	}
	defer func() {
		if a == nil { // also if Reconcile panics
			c.life.Leave()
		}
	}()
	if !r.needsReconcile(rec) {
		a, err = c.takeOver(ctx, rec, r.options, false)
		return a, false, err
	}
	v, err := c.reconcileToRun(ctx, rec, r.options)
	a = v.attempt
	return a, v.finished, err
}

// giveUpRecord leaves the record in doubt, for an operator.
func (w *Worker) giveUpRecord(ctx context.Context, r *resumer, rec *Record) bool {
	c := r.engine.c
	if !c.enterCall() {
		return false
	}
	a, err := c.takeOver(ctx, rec, r.options, true)
	if a == nil || err != nil {
		c.life.Leave()
		return false
	}
	return a.putInDoubt(ctx, causeAttempts, errTooManyAttempts) == nil
}
