package retrysafe

import "errors"

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
