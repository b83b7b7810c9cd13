package retrysafe

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// NothingDone marks an error of the work as "certainly nothing happened": the key is released and a
// retry runs the work again. Use it only where that is known: the connection was refused, the input
// was rejected before anything was sent. NothingDone(nil) is nil.
func NothingDone(err error) error {
	if err == nil {
		return nil
	}
	return &nothingDone{err}
}

type nothingDone struct{ err error }

func (e *nothingDone) Error() string { return e.err.Error() }
func (e *nothingDone) Unwrap() error { return e.err }

// InDoubt marks an error of the work as "it may have happened", also under Reexecute. InDoubt(nil)
// is nil.
func InDoubt(err error) error {
	if err == nil {
		return nil
	}
	return &inDoubt{err}
}

type inDoubt struct{ err error }

func (e *inDoubt) Error() string { return e.err.Error() }
func (e *inDoubt) Unwrap() error { return e.err }

// Permanent marks an error of the work as a final refusal (the card was declined): it is kept, and
// the first caller and every repeat get a [*Failure] with this code and the text of err.
// Permanent(code, nil) is nil.
func Permanent(code string, err error) error {
	if err == nil {
		return nil
	}
	return &Failure{Code: code, Message: err.Error(), cause: err}
}

// Failure is a kept, final error. The first caller and every repeat get the same Code, Message and
// Detail (use errors.As); only the first caller's wraps the cause.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// Detail is for programs: any bytes, kept and replayed.
	Detail []byte `json:"detail,omitempty"`

	cause error
}

// Error returns the message.
func (f *Failure) Error() string { return f.Message }

// Unwrap returns the cause, which only the first caller has.
func (f *Failure) Unwrap() error { return f.cause }

const failureCodec = "failure"

// answer is the failure as it is stored: JSON {code, message, detail}, the format frozen as
// version 1.
func (f *Failure) answer() (Answer, error) {
	body, err := json.Marshal(f)
	if err != nil {
		return Answer{}, fmt.Errorf("retrysafe: encode failure: %w", err)
	}
	return Answer{Codec: failureCodec, Body: body, Kept: true, Size: 0}, nil
}

// FailureOf reads the failure that a failed record keeps.
func FailureOf(a Answer) (*Failure, error) {
	if a.Codec != failureCodec {
		return nil, fmt.Errorf("retrysafe: the stored failure has codec %q, not %q", a.Codec, failureCodec)
	}
	f := new(Failure)
	if err := json.Unmarshal(a.Body, f); err != nil {
		return nil, errors.New("retrysafe: the stored failure cannot be read")
	}
	return f, nil
}

// OutcomeOf is what an error of the work means under p; nil is [Done]. The outermost mark counts
// ([NothingDone], [Permanent], [InDoubt]), then what Classify says, then OnDoubt.
//
// Where several errors are joined, an InDoubt in any branch makes all of it [Doubtful], and the
// other marks count only if every branch has one. An error that is marked only in part is Doubtful
// under [Refuse] and is not given to Classify; under [Reexecute] a Permanent in any branch makes it
// [Failed].
func (p Policy) OutcomeOf(err error) Outcome { return outcomeOf(err, &p) }

func outcomeOf(err error, p *Policy) Outcome {
	if err == nil {
		return Done
	}
	switch m := marksOf(err); {
	case m.outcome == 0:
		return unmarkedOutcome(err, p)
	case !m.inPart:
		return m.outcome
	case p.OnDoubt == Refuse:
		return Doubtful
	default:
		return m.outcome
	}
}

// unmarkedOutcome is what an error without a mark means.
func unmarkedOutcome(err error, p *Policy) Outcome {
	if p.Classify != nil {
		switch o := p.Classify(err); o {
		case Done, NotDone, Failed, Doubtful:
			return o
		case 0:
		default:
			return Doubtful // an outcome that does not exist says nothing
		}
	}
	if p.OnDoubt == Reexecute {
		return NotDone
	}
	return Doubtful
}

// nothingDoneSays tells whether err says by its own mark, in every branch, that nothing was done.
func nothingDoneSays(err error) bool {
	m := marksOf(err)
	return m.outcome == NotDone && !m.inPart
}

// marks are what an error says of itself. Marks that an inner call has settled do not count.
type marks struct {
	outcome Outcome
	// inPart is set where a branch of a joined error has no mark: that branch may have had an
	// effect.
	inPart bool
}

func marksOf(err error) marks {
	switch e := err.(type) { //nolint:errorlint // this is the walk
	case *settledError, *Error:
		return marks{}
	case *inDoubt:
		return marks{outcome: Doubtful}
	case *nothingDone:
		return marks{outcome: NotDone}
	case *Failure:
		return marks{outcome: Failed}
	case interface{ Unwrap() error }:
		return marksOf(e.Unwrap())
	case interface{ Unwrap() []error }:
		return marksOfAll(e.Unwrap())
	}
	return marks{}
}

// marksOfAll joins the marks of branches: a doubt wins, then a refusal.
func marksOfAll(branches []error) (all marks) {
	for _, err := range branches {
		m := marksOf(err)
		switch {
		case err == nil:
		case m.outcome == Doubtful:
			return m
		case m.outcome == 0, m.inPart:
			all.inPart = true
		}
		if all.outcome != Failed && m.outcome != 0 {
			all.outcome = m.outcome
		}
	}
	return all
}

// markedInPart is an error in doubt because only some of its branches are marked.
type markedInPart struct{ err error }

func (e *markedInPart) Error() string {
	return e.err.Error() + " (only a part of this error is marked; mark the outermost error)"
}
func (e *markedInPart) Unwrap() error      { return e.err }
func (e *markedInPart) DoubtCause() string { return "marked-in-part" }

// advised adds advice to an error in doubt that has marks which do not count.
func advised(err error) error {
	if m := marksOf(err); m.inPart && m.outcome != 0 {
		return &markedInPart{err}
	}
	return err
}

// settledError is what a call returns of an error that it has settled. Its marks do not count for a
// call around it.
type settledError struct {
	err   error
	again bool // a retry runs
}

func (e *settledError) Error() string { return e.err.Error() }
func (e *settledError) Unwrap() error { return e.err }

// failureOf is the failure that err stands for.
func failureOf(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return &Failure{Code: "failed", Message: err.Error(), cause: err}
}

// Retryable says whether the same call with the same key may be made again, and after how long. In
// doubt, a mismatch and a duplicate are not retryable: the answer would be the same. A doubt that
// [Policy].Reconcile will be asked about is retryable then.
func Retryable(err error) (after time.Duration, ok bool) {
	if f := (*Failure)(nil); errors.As(err, &f) && !errors.Is(err, ErrInDoubt) {
		return 0, false // final, whatever it wraps
	}
	if errors.Is(err, ErrInDoubt) {
		var e *Error
		if errors.As(err, &e) {
			after = e.RetryAfter
		}
		return after, after > 0
	}
	for _, base := range []error{ErrInProgress, ErrAttemptFailed, ErrLeaseLost, ErrUnconfirmed, ErrTooManyKeys, ErrTooManyRequests, ErrUnavailable, ErrClosed} {
		if !errors.Is(err, base) {
			continue
		}
		var e *Error
		if errors.As(err, &e) {
			after = e.RetryAfter
		}
		return after, true
	}
	var settled *settledError
	return 0, errors.As(err, &settled) && settled.again
}

// Marked is what the mark of an error says ([NothingDone], [InDoubt], [Permanent]), for code that
// finishes attempts itself; false: it has none. An error that is marked only in part is [Doubtful];
// what it means under a policy says [Policy.OutcomeOf].
func Marked(err error) (Outcome, bool) {
	if err == nil {
		return 0, false
	}
	m := marksOf(err)
	if m.outcome != 0 && m.inPart {
		return Doubtful, true
	}
	return m.outcome, m.outcome != 0
}

// Unmarked is an error without its marks, as the work's callers should see it. Those of a joined
// error stay.
func Unmarked(err error) error {
	for {
		if _, ok := Marked(err); !ok {
			return err
		}
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
