package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Forever is a retention without end.
const Forever time.Duration = math.MaxInt64

// Duplicate is what a repeat of finished work is told.
type Duplicate uint8

// The ways to answer a repeat of finished work.
const (
	// Replay gives the first answer again: idempotency. It is the default.
	Replay Duplicate = iota + 1
	// Reject gives [ErrDuplicate]: duplicate suppression. What was refused for good is
	// [ErrFailedBefore].
	Reject
	// Succeed gives plain success and the zero value (over HTTP: a configured answer).
	Succeed
)

// Policy is how one operation behaves. A zero field takes the engine's default, and there the value
// named here.
type Policy struct {
	// Lease is how long an attempt is believed to live without a heartbeat; default 30 s, at least
	// 10 ms. Heartbeats go out after a third of it. After a crash a key is in doubt when its lease
	// has passed.
	Lease time.Duration
	// MaxRun is how long heartbeats go on; default 10 leases. After it the attempt's context ends
	// with [ErrBound] as its cause.
	MaxRun time.Duration
	// Retention is how long an answer is kept, counted from the end of the attempt; default 24 h,
	// at least one lease. See [Forever].
	Retention time.Duration
	// ReleasedFor is how long the record of a call that was released is kept, which certainly did
	// nothing: so that a late repeat of its claim meets it, and [Attempt].N goes on counting;
	// default 5 min, never longer than Retention. Records of issued keys, and those that keep an
	// input, steps or attempts that may have worked, are kept for Retention.
	ReleasedFor time.Duration
	// Duplicate is what a repeat of finished work is told; default [Replay].
	Duplicate Duplicate
	// Wait is how long a repeat waits while the first attempt runs. Negative (the default) means
	// that it is told [ErrInProgress] at once.
	Wait time.Duration
	// OnDoubt is [Refuse] by default. The call that wins writes it into the record: a takeover
	// needs the record and the request to allow it.
	OnDoubt OnDoubt
	// MaxAnswer is the largest answer that is kept, in bytes; default 1 MiB, at most [MaxStored]. A
	// larger one is given to the first caller; repeats are told [ErrAnswerNotKept]. It never leads
	// to a second run.
	MaxAnswer int64
	// Attached ends the work of [Do] when the caller's context is cancelled. By default it goes on,
	// since work that ends in the middle leaves the key in doubt; a caller's deadline counts either
	// way.
	Attached bool
	// Limits bound what a tenant may have in the store; default none.
	Limits Limits
	// Steps are the names of all steps of the work (see [Step]) in the order of the program, at
	// most 128; nil: not declared. With them a retry by a program that has others is found before
	// anything runs, and is [ErrStepsChanged]; a step that is not among them is an error. To tell a
	// program from one with the same names, add a name that stands for its version.
	Steps []string
	// Reconcile finds out what became of a key in doubt: it asks the other side, by the key or the
	// fence that the work has sent along. It is called when a repeat meets a doubt under Refuse, by
	// one caller at a time, under an attempt of its own whose context it gets, and not before the
	// doubt is two leases old; [Engine.ReconcileAll] calls it for all. Nil (the default): people
	// resolve.
	//
	// The record's Attempt and Fence are those of the last attempt that may have worked, never of
	// one that only asked. Where the work ran several times, [Record.MayHaveWorked] names each:
	// nothing was done if none of them has done anything.
	//
	// The verdict's Outcome: Done keeps Answer, which this caller and all repeats get; Failed keeps
	// Failure; NotDone lets this caller run the work, under the attempt of the question, once the
	// store has confirmed that it begins; Doubtful, or an error, leaves the doubt for two leases
	// more. Fence, Force and By are not used. NotDone is only safe if the first request cannot
	// arrive any more, or the other side checks the fence.
	Reconcile func(context.Context, Record) (Resolution, error)
	// Classify says what an error of the work means; it is not asked about errors that are marked,
	// whole or in part, with [NothingDone], [Permanent] or [InDoubt]. A zero Outcome leaves it to
	// the default: in doubt under Refuse, not done under Reexecute. Done drops the error: it was
	// none.
	Classify func(error) Outcome
}

var defaultPolicy = Policy{
	Lease: 30 * time.Second, Retention: 24 * time.Hour, ReleasedFor: 5 * time.Minute, Duplicate: Replay, Wait: -1, OnDoubt: Refuse, MaxAnswer: 1 << 20,
}

// Or returns p with each zero field taken from base. A p with a Lease of its own and no MaxRun gets
// ten of its leases.
func (p Policy) Or(base Policy) Policy {
	if p.Lease != 0 && p.MaxRun == 0 {
		p.MaxRun = tenLeases(p.Lease)
	}
	set(&p.Lease, base.Lease)
	set(&p.MaxRun, base.MaxRun)
	set(&p.Retention, base.Retention)
	set(&p.ReleasedFor, base.ReleasedFor)
	set(&p.Duplicate, base.Duplicate)
	set(&p.Wait, base.Wait)
	set(&p.OnDoubt, base.OnDoubt)
	set(&p.MaxAnswer, base.MaxAnswer)
	set(&p.Attached, base.Attached)
	p.Limits = p.Limits.or(base.Limits)
	if p.Steps == nil {
		p.Steps = base.Steps
	}
	if p.Classify == nil {
		p.Classify = base.Classify
	}
	if p.Reconcile == nil {
		p.Reconcile = base.Reconcile
	}
	return p
}

// WithDefaults returns p with the documented defaults where it is zero.
func (p Policy) WithDefaults() Policy {
	p = p.Or(defaultPolicy)
	set(&p.MaxRun, tenLeases(p.Lease))
	return p
}

func tenLeases(lease time.Duration) time.Duration { return 10 * min(lease, Forever/10) }

// Validate says what is wrong with p, whose zero fields stand for the documented defaults.
func (p Policy) Validate() error {
	p = p.WithDefaults()
	var errs []error
	wrong := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("retrysafe: policy: "+format, args...))
	}
	if p.Lease < 10*time.Millisecond || p.Lease > 24*time.Hour {
		wrong("Lease is %v; use 10ms to 24h, for example 30s", p.Lease)
	}
	if p.MaxRun < p.Lease {
		wrong("MaxRun (%v) is shorter than Lease (%v); leave it zero for ten leases", p.MaxRun, p.Lease)
	}
	if p.Retention < p.Lease {
		wrong("Retention (%v) is shorter than Lease (%v): a record must outlive the attempt that made it", p.Retention, p.Lease)
	}
	if p.ReleasedFor < 0 {
		wrong("ReleasedFor is %v; use a positive time", p.ReleasedFor)
	}
	if p.Duplicate > Succeed {
		wrong("Duplicate is %d; use Replay, Reject or Succeed", p.Duplicate)
	}
	if p.OnDoubt > Reexecute {
		wrong("OnDoubt is %d; use Refuse or Reexecute", p.OnDoubt)
	}
	if p.MaxAnswer < 0 || p.MaxAnswer > MaxStored {
		wrong("MaxAnswer is %d; use 1 to %d bytes", p.MaxAnswer, MaxStored)
	}
	if len(p.Steps) > maxSteps {
		wrong("Steps has %d names; use at most %d", len(p.Steps), maxSteps)
	}
	for i, name := range p.Steps {
		if err := stepName(name); err != nil {
			wrong("Steps: number %d: %w", i+1, err)
		} else if slices.Contains(p.Steps[:i], name) {
			wrong("Steps: %q is there twice", name)
		}
	}
	return errors.Join(append(errs, p.Limits.validate())...)
}
