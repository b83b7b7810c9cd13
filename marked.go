package retrysafe

import "errors"

// Marked is what the mark of an error says ([NothingDone], [InDoubt], [Permanent]), for those who settle attempts by themselves; false: it
// has none.
func Marked(err error) (Outcome, bool) {
	if err == nil {
		return 0, false
	}
	o := marked(err)
	return o, o != 0
}

// Unmarked is an error without its marks, as the work's callers should see it. Those of a joined error stay.
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
