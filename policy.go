package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/internal/enum"
	"github.com/retrysafe/retrysafe/internal/journal"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Forever is a retention that never ends.
const Forever = storeapi.Forever

// Duplicate is how a duplicate of finished work is answered.
type Duplicate uint8

// The ways to answer a duplicate of finished work.
const (
	// Replay returns the first answer again: idempotency. It is the default.
	Replay Duplicate = iota + 1
	// Reject returns [ErrDuplicate]: duplicate suppression. Work that was refused for good gets
	// [ErrFailedBefore].
	Reject
	// Succeed returns plain success and the zero value (over HTTP: a configured answer).
	Succeed
)

// String returns the constant's name in words.
func (d Duplicate) String() string { return enum.Name(d, "default", "replay", "reject", "succeed") }

// Policy is the behaviour of one operation. A zero field takes the engine's default. In the
// engine's policy it takes the default named here.
type Policy struct {
	// Lease is how long an attempt is believed to be alive without a heartbeat; default 30 s, at
	// least 10 ms. Heartbeats are sent after a third of it. After a crash a key is in doubt when
	// its lease has expired.
	Lease time.Duration
	// MaxRun is how long heartbeats go on; default 10 leases. After that the attempt's context ends
	// with the cause [ErrMaxRun].
	MaxRun time.Duration
	// Retention is how long an answer is stored, counted from the end of the attempt; default 24 h,
	// at least one lease. See [Forever].
	Retention time.Duration
	// ReleasedFor is how long the record of a released call is kept, which certainly did nothing
	// (under Reexecute: whose error is marked with [NothingDone]; others may have worked); default
	// 5 min, never longer than Retention. In that time a late copy of its claim finds the record,
	// and [Attempt.Number] goes on counting. Records of issued keys, and records that have an
	// input, steps or attempts that may have worked, are kept for Retention.
	ReleasedFor time.Duration
	// Duplicate is how a duplicate of finished work is answered; default [Replay].
	Duplicate Duplicate
	// Wait is how long a duplicate waits while the first attempt runs. A negative value (the
	// default) means that it gets [ErrInProgress] at once.
	Wait time.Duration
	// OnDoubt is the policy for an outcome in doubt; default [Refuse]. The call that acquires the
	// key writes it into the record. A takeover needs both the record and the new request to allow
	// it.
	OnDoubt OnDoubt
	// MaxAnswer is the largest answer that is stored, in bytes; default 1 MiB, at most [MaxStored].
	// A larger one goes to the first caller, and duplicates get [ErrAnswerNotKept]. It never leads
	// to a second run.
	MaxAnswer int64
	// Attached ends the work of [Do] when the caller's context is cancelled. By default the work
	// goes on, since work that ends in the middle leaves the key in doubt. A caller's deadline
	// counts either way.
	Attached bool
	// Limits bound what a tenant may have in the store; default none.
	Limits Limits
	// Steps are the names of all steps of the work (see [Step]) in the order of the program, at
	// most 128; nil means that they are not declared. If they are, a retry by a program with other
	// steps gets [ErrStepsChanged] before anything runs, and a step that is not among them is an
	// error. To distinguish a program from another with the same names, add a name that stands for
	// its version.
	Steps []string
	// Reconcile finds out the outcome of a key in doubt by asking the other side, with the key or
	// the fence that the work has sent along. The engine calls it when a duplicate finds a key in
	// doubt under Refuse: for one caller at a time, under an attempt of its own whose context it
	// gets, and not before the key has been in doubt for two leases. [Engine.ReconcileAll] calls it
	// for all keys in doubt. Without it (nil, the default) an operator resolves the key.
	//
	// The record's Attempt and Fence are those of the last attempt that may have worked, never of
	// one that only asked. If the work ran several times, [storeapi.Record.MayHaveWorked] returns
	// each attempt: nothing was done only if none of them has done anything.
	//
	// Reconcile returns one of these outcomes:
	//
	//   - Done stores Answer, which this caller and all duplicates get.
	//   - Failed stores Failure.
	//   - NotDone lets this caller run the work, under the attempt that asked, once the store has
	//     confirmed that the work begins. It is safe only if the first request cannot arrive any
	//     more, or if the other side checks the fence.
	//   - Doubtful, or an error, leaves the key in doubt for two more leases.
	//
	// Fence, Force and By of the [Resolution] are not used.
	Reconcile func(context.Context, Record) (Resolution, error)
	// Classify returns the outcome of an error of the work. It is not called for an error that is
	// marked, whole or in part, with [NothingDone], [Permanent] or [InDoubt]. A zero Outcome
	// selects the default: in doubt under Refuse, not done under Reexecute. Done drops the error:
	// the work has succeeded.
	Classify func(error) Outcome
}

var defaultPolicy = Policy{
	Lease: 30 * time.Second, Retention: 24 * time.Hour, ReleasedFor: 5 * time.Minute, Duplicate: Replay, Wait: -1, OnDoubt: Refuse, MaxAnswer: 1 << 20,
}

// Or returns p with each zero field taken from base. If p has its own Lease and no MaxRun, MaxRun
// is ten of its leases.
func (p Policy) Or(base Policy) Policy {
	if p.Lease != 0 && p.MaxRun == 0 {
		p.MaxRun = tenLeases(p.Lease)
	}
	setDefault(&p.Lease, base.Lease)
	setDefault(&p.MaxRun, base.MaxRun)
	setDefault(&p.Retention, base.Retention)
	setDefault(&p.ReleasedFor, base.ReleasedFor)
	setDefault(&p.Duplicate, base.Duplicate)
	setDefault(&p.Wait, base.Wait)
	setDefault(&p.OnDoubt, base.OnDoubt)
	setDefault(&p.MaxAnswer, base.MaxAnswer)
	setDefault(&p.Attached, base.Attached)
	p.Limits = p.Limits.withBase(base.Limits)
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

// WithDefaults returns p with the documented defaults for its zero fields.
func (p Policy) WithDefaults() Policy {
	p = p.Or(defaultPolicy)
	setDefault(&p.MaxRun, tenLeases(p.Lease))
	return p
}

func tenLeases(lease time.Duration) time.Duration { return 10 * min(lease, Forever/10) }

// Validate returns an error that says what is wrong with p, or nil. A zero field stands for its
// documented default.
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
	if len(p.Steps) > journal.MaxSteps {
		wrong("Steps has %d names; use at most %d", len(p.Steps), journal.MaxSteps)
	}
	for i, name := range p.Steps {
		if err := journal.CheckName(name); err != nil {
			wrong("Steps: number %d: %w", i+1, err)
		} else if slices.Contains(p.Steps[:i], name) {
			wrong("Steps: %q is there twice", name)
		}
	}
	return errors.Join(append(errs, p.Limits.validate())...)
}

// OnDoubt is the policy for work that may have taken effect and whose outcome is unknown, because
// its process died, its lease expired or its answer was cut off.
type OnDoubt = storeapi.OnDoubt

// The policies for an outcome in doubt.
const (
	// Refuse starts the work at most once: calls for a key in doubt get [ErrInDoubt] until it is
	// resolved. It is the default.
	Refuse = storeapi.Refuse
	// Reexecute starts the work again, so it runs at least once. Duplicates that can be recognised
	// are suppressed. Use it for work that does no harm if it runs twice.
	Reexecute = storeapi.Reexecute
)

// Outcome is the outcome of the work, as far as it is known. [Policy].Classify returns it for an
// error, the marks [NothingDone], [Permanent] and [InDoubt] say it, and a [Resolution] stores it.
type Outcome uint8

// The outcomes of work.
const (
	// Done means that the work took effect. The record is completed.
	Done Outcome = iota + 1
	// NotDone means that certainly nothing happened. The record is released, and a retry runs
	// again.
	NotDone
	// Failed means that the work refused for good. The refusal is stored, and every duplicate gets
	// it.
	Failed
	// Doubtful means that the work may have taken effect. [Policy].OnDoubt decides.
	Doubtful
)

// String returns the constant's name in words.
func (o Outcome) String() string {
	return enum.Name(o, "none", "done", "not done", "failed", "doubtful")
}
