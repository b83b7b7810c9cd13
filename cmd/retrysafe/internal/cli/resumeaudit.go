package cli

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
)

// resumeAudit writes the entries of the calls that a program finishes. Each call has two: one
// before the program runs, and one with the outcome of the record.
type resumeAudit struct {
	log      *admin.Audit
	operator operator
	flagName string // which flag names the program
	hash     func(retrysafe.Key) string
	warn     *slog.Logger
}

// auditedCall is what the context of a call has of it. The call may end, since its lease is lost,
// while its work begins.
type auditedCall struct{ begun atomic.Pointer[admin.Begun] }

// attemptsCause is the cause of a call that had too many attempts.
const attemptsCause = "attempts"

// auditedCallKey is the key of a auditedCall in a context.
type auditedCallKey struct{}

// traceCall returns a function for [retrysafe.Trace].Call. It writes the entries of results, and
// calls told at the end of each call.
func (r *resumeAudit) traceCall(told func(hash string, d *retrysafe.CallDone)) func(context.Context, retrysafe.CallInfo) (context.Context, func(retrysafe.CallDone)) {
	return func(ctx context.Context, i retrysafe.CallInfo) (context.Context, func(retrysafe.CallDone)) {
		c := new(auditedCall)
		return context.WithValue(ctx, auditedCallKey{}, c), func(d retrysafe.CallDone) {
			if begun := c.begun.Load(); begun != nil {
				r.logUnstored(begun.End(ctx, fmt.Sprintf("attempt %d: %s", d.Attempt, outcomeOf(d.Outcome)), nil))
			}
			told(i.Hash(), &d)
		}
	}
}

// outcomeOf returns the state in which a call has left its record.
func outcomeOf(traced string) string {
	switch traced {
	case "executed":
		return "completed"
	case "doubt":
		return "in-doubt"
	}
	return traced
}

type resumeWork = func(context.Context, retrysafe.Answer) (retrysafe.Answer, error)

// auditWork returns work that begins with an entry. Without it nothing is done.
func (r *resumeAudit) auditWork(work resumeWork) resumeWork {
	return func(ctx context.Context, input retrysafe.Answer) (retrysafe.Answer, error) {
		a, _ := retrysafe.AttemptFrom(ctx)
		begun, err := r.log.Begin(ctx, r.operator.entry("resume", r.hash(a.Key()), fmt.Sprintf("attempt %d, %s", a.Number(), r.flagName)))
		if err != nil {
			return retrysafe.Answer{}, retrysafe.NothingDone(err)
		}
		if c, ok := ctx.Value(auditedCallKey{}).(*auditedCall); ok {
			c.begun.Store(begun)
		}
		return work(ctx, input)
	}
}

// auditGivenUp writes the entries of a call that was given up: nothing ran, and its record changed.
func (r *resumeAudit) auditGivenUp(ctx context.Context, i retrysafe.AttemptInfo) {
	if i.Cause == attemptsCause {
		e := r.operator.entry("resume", r.hash(i.Key), fmt.Sprintf("attempt %d: given up, in-doubt", i.Attempt))
		r.logUnstored(r.log.Do(context.WithoutCancel(ctx), e, func() error { return nil }))
	}
}

// logUnstored logs that an entry is not known to be stored. What it is about was done.
func (r *resumeAudit) logUnstored(err error) {
	if err != nil {
		r.warn.Warn("an entry of the audit log was not stored", "error", err.Error())
	}
}
