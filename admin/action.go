package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/mqidem"
)

// mostReason bounds the reason of an action, in bytes.
const mostReason = 1000

// The errors of [Entry.Validate] and [Entry.RequireReason].
var (
	ErrName     = fmt.Errorf("the name of the caller has 1 to %d bytes, and no characters that cannot be printed", mostName)
	ErrReason   = fmt.Errorf("reason has more than %d bytes, or characters that cannot be printed, such as a line break", mostReason)
	ErrNoReason = errors.New("a reason is needed: say why, for those who read the log later")
)

// Validate returns [ErrName] or [ErrReason] if Who or Reason cannot stand in the log, else nil.
func (e *Entry) Validate() error {
	switch {
	case e.Who == "" || !isText(e.Who, mostName):
		return ErrName
	case !isText(e.Reason, mostReason):
		return ErrReason
	}
	return nil
}

// RequireReason is Validate for an action that a person decides on. It needs a reason: without one
// the error is [ErrNoReason].
func (e *Entry) RequireReason() error {
	err := e.Validate()
	if !errors.Is(err, ErrName) && !strings.ContainsFunc(e.Reason, isSeen) {
		return ErrNoReason
	}
	return err
}

// Begun is an action that has begun. Call End once.
type Begun struct {
	log   *Audit
	entry Entry
}

// Begin writes the entry that says that an action begins, before anything is done. If it returns an
// error, nothing may be done: that of [Entry.Validate], or one of the store.
func (a *Audit) Begin(ctx context.Context, e Entry) (*Begun, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	e.Result = "begun"
	n, err := a.Write(ctx, e)
	if err != nil {
		return nil, err
	}
	e.Of = n
	return &Begun{a, e}, nil
}

// End writes the entry with the result: done, or the code of err. A detail that is not empty takes
// the place of the entry's; it says what was done, such as counts. End returns err, joined with the
// error of the store if the entry is not known to be stored. It writes the entry although ctx has
// ended.
func (b *Begun) End(ctx context.Context, detail string, err error) error {
	e := b.entry
	e.Result = "done"
	if err != nil {
		e.Result = "error: " + errorCode(err)
	}
	if detail != "" {
		e.Detail = detail
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_, failed := b.log.Write(ctx, e)
	return errors.Join(err, failed)
}

// Do does an action between two entries: one of [Audit.Begin], without which nothing is done, and
// one with its result. It returns the error of do, and also an error if an entry was not stored.
func (a *Audit) Do(ctx context.Context, e Entry, do func() error) error {
	begun, err := a.Begin(ctx, e)
	if err != nil {
		return err
	}
	return begun.End(ctx, "", do())
}

// errorCode returns the code of an error. Its text may have what must not lie in a log.
func errorCode(err error) string {
	switch {
	case errors.Is(err, mqidem.ErrMayBeDone):
		return "in-doubt"
	case errors.Is(err, mqidem.ErrNoRecord):
		return "no-record"
	case errors.Is(err, mqidem.ErrDoneElsewhere):
		return "done-elsewhere"
	case errors.Is(err, ErrNoLetter):
		return "not-found"
	}
	return problemOf(err).Code
}
