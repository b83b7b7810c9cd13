package report

import (
	"fmt"
	"io"

	"github.com/retrysafe/retrysafe/check"
)

// clearLine returns to the start of the line and empties it.
const clearLine = "\r\x1b[K"

// Progress returns a function for [check.Options.Progress] that writes to w how far an examination
// is. On a terminal it rewrites one line, and empties it after the last check; otherwise it writes
// one line for each check that ended.
//
// The zero Event empties the line of a terminal. It is for an examination that ends early.
func Progress(w io.Writer, terminal bool) func(check.Event) {
	if terminal {
		return func(e check.Event) {
			switch {
			case e.Check == nil, e.Result != nil && e.Index == e.Total:
				fmt.Fprint(w, clearLine)
			case e.Result == nil:
				fmt.Fprintf(w, "%s%d/%d %s …", clearLine, e.Index, e.Total, e.Check.ID)
			}
		}
	}
	return func(e check.Event) {
		if e.Check != nil && e.Result != nil {
			fmt.Fprintf(w, "%d/%d %s %s, %s\n", e.Index, e.Total, e.Check.ID, label(e.Result), seconds(e.Result.Took))
		}
	}
}
