package retrysafe

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// NothingDone marks an error of the work as "certainly nothing happened": the key is released, and
// a retry runs the work again. Use it only if that is certain: the connection was refused, or the
// input was rejected before anything was sent. NothingDone(nil) is nil.
func NothingDone(err error) error {
	if err == nil {
		return nil
	}
	return &nothingDoneMark{err}
}

type nothingDoneMark struct{ err error }

func (e *nothingDoneMark) Error() string { return e.err.Error() }
func (e *nothingDoneMark) Unwrap() error { return e.err }

// InDoubt marks an error of the work as "it may have happened", under Reexecute too. InDoubt(nil)
// is nil.
func InDoubt(err error) error {
	if err == nil {
		return nil
	}
	return &inDoubtMark{err}
}

type inDoubtMark struct{ err error }

func (e *inDoubtMark) Error() string { return e.err.Error() }
func (e *inDoubtMark) Unwrap() error { return e.err }

// Permanent marks an error of the work as a final refusal, such as a declined card. The refusal is
// stored, and the first caller and every duplicate get a [*Failure] with this code and the text of
// err. Permanent(code, nil) is nil.
func Permanent(code string, err error) error {
	if err == nil {
		return nil
	}
	return &Failure{Code: code, Message: err.Error(), cause: err}
}

// Failure is a stored, final error. The first caller and every duplicate get the same Code, Message
// and Detail (use errors.As). Bytes of Code and Message that are no UTF-8 become U+FFFD for both,
// and an empty Detail nil. Only the first caller's Failure wraps the cause.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// Detail is data for programs: any bytes, stored and replayed.
	Detail []byte `json:"detail,omitempty"`

	cause error
}

// Error returns the message.
func (f *Failure) Error() string { return f.Message }

// Unwrap returns the cause. Only the first caller's Failure has one.
func (f *Failure) Unwrap() error { return f.cause }

const failureCodec = "failure"

// storedAnswer returns the failure as it is stored: JSON {code, message, detail}. The format is
// frozen as version 1.
func (f *Failure) storedAnswer() (Answer, error) {
	body, err := json.Marshal(f)
	if err != nil {
		return Answer{}, fmt.Errorf("retrysafe: encode failure: %w", err)
	}
	return Answer{Codec: failureCodec, Body: body, Kept: true, Size: 0}, nil
}

// FailureOf returns the failure that is stored in the answer of a failed record.
func FailureOf(a Answer) (*Failure, error) {
	takeOrigin(&a)
	if a.Codec != failureCodec {
		return nil, fmt.Errorf("retrysafe: the stored failure has codec %q, not %q", a.Codec, failureCodec)
	}
	f := new(Failure)
	if err := json.Unmarshal(a.Body, f); err != nil {
		return nil, errors.New("retrysafe: the stored failure cannot be read")
	}
	return f, nil
}

// OutcomeOf returns the outcome that an error of the work has under p; nil is [Done]. The outermost
// mark decides ([NothingDone], [Permanent], [InDoubt]), then Classify, then OnDoubt.
//
// If several errors are joined, an InDoubt in any branch makes the whole error [Doubtful]. The
// other marks count only if every branch has one. An error that is marked only in part is Doubtful
// under [Refuse], and Classify is not called. Under [Reexecute] a Permanent in any branch makes it
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

// unmarkedOutcome returns the outcome of an error without a mark.
func unmarkedOutcome(err error, p *Policy) Outcome {
	if p.Classify != nil {
		switch o := p.Classify(err); o {
		case Done, NotDone, Failed, Doubtful:
			return o
		case 0:
		default:
			return Doubtful // an unknown outcome says nothing
		}
	}
	if p.OnDoubt == Reexecute {
		return NotDone
	}
	return Doubtful
}

// saysNothingDone reports whether err itself is marked with NothingDone, in every branch.
func saysNothingDone(err error) bool {
	m := marksOf(err)
	return m.outcome == NotDone && !m.inPart
}

// marks are what an error says about its own outcome. Marks of an inner call's error do not count:
// that call has used them.
type marks struct {
	outcome Outcome
	// inPart is set if a branch of a joined error has no mark: that branch may have had an effect.
	inPart bool
	// failure is the refusal that the outcome Failed stands for. Those of errors below a mark are
	// an inner call's.
	failure *Failure
}

func marksOf(err error) marks {
	switch e := err.(type) { //nolint:errorlint // this walks the chain itself
	case *workError, *Error:
		return marks{}
	case *inDoubtMark:
		return marks{outcome: Doubtful}
	case *nothingDoneMark:
		return marks{outcome: NotDone}
	case *Failure:
		return marks{outcome: Failed, failure: e}
	case interface{ Unwrap() error }:
		return marksOf(e.Unwrap())
	case interface{ Unwrap() []error }:
		return marksOfAll(e.Unwrap())
	}
	return marks{}
}

// marksOfAll joins the marks of all branches: InDoubt takes precedence, then Permanent.
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
			all.outcome, all.failure = m.outcome, m.failure
		}
	}
	return all
}

// partlyMarkedError is an error in doubt because only some of its branches are marked.
type partlyMarkedError struct{ err error }

func (e *partlyMarkedError) Error() string {
	return e.err.Error() + " (only a part of this error is marked; mark the outermost error)"
}
func (e *partlyMarkedError) Unwrap() error        { return e.err }
func (e *partlyMarkedError) InDoubtCause() string { return "marked-in-part" }

// adviseOnMarks adds advice to an error in doubt if it has marks that do not count.
func adviseOnMarks(err error) error {
	if m := marksOf(err); m.inPart && m.outcome != 0 {
		return &partlyMarkedError{err}
	}
	return err
}

// workError is the error of the work as a call returns it after the attempt has been finished.
// Its marks do not count for an outer call.
type workError struct {
	err       error
	retryable bool // a retry runs the work
}

func (e *workError) Error() string { return e.err.Error() }
func (e *workError) Unwrap() error { return e.err }

// failureOf returns the failure in err, or makes one of err, as it is stored.
func failureOf(err error) *Failure {
	m := marksOf(err)
	if m.failure != nil {
		return m.failure.storableCopy()
	}
	if f := (*Failure)(nil); m.outcome == 0 && errors.As(err, &f) {
		return f.storableCopy()
	}
	return (&Failure{Code: "failed", Message: err.Error(), cause: err}).storableCopy()
}

// storableCopy returns f as duplicates get it, with the cause. That is f itself unless its texts
// have bytes that are no UTF-8, which JSON cannot keep.
func (f *Failure) storableCopy() *Failure {
	if utf8.ValidString(f.Code) && utf8.ValidString(f.Message) && (f.Detail == nil) == (len(f.Detail) == 0) {
		return f
	}
	kept := *f
	kept.Code, kept.Message = string([]rune(f.Code)), string([]rune(f.Message))
	if len(f.Detail) == 0 {
		kept.Detail = nil
	}
	return &kept
}

// Retryable reports whether the same call with the same key can be retried, and after how long. A
// key in doubt, a mismatch and a duplicate are not retryable: the answer would be the same. A key
// in doubt is retryable if [Policy].Reconcile will be called for it after that time.
func Retryable(err error) (after time.Duration, ok bool) {
	if f := (*Failure)(nil); errors.As(err, &f) && !errors.Is(err, ErrInDoubt) {
		return 0, false // final, whatever it wraps
	}
	var e *Error
	if errors.As(err, &e) {
		after = e.RetryAfter
	}
	switch retryRuleOf(err) {
	case always:
		return after, true
	case ifTimed:
		return after, after > 0
	}
	var ended *workError
	return 0, errors.As(err, &ended) && ended.retryable
}

// Marked returns the outcome that the mark of an error stands for ([NothingDone], [InDoubt],
// [Permanent]), and reports whether it has one. It is for code that finishes attempts itself. An
// error that is marked only in part is [Doubtful]; [Policy.OutcomeOf] returns its outcome under a
// policy.
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

// Unmarked returns err without its marks, as callers of the work should see it. Marks inside a
// joined error stay.
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
