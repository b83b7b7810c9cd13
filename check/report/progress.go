package report

import (
	"fmt"
	"io"

	"github.com/retrysafe/retrysafe/check"
)

// clearLine returns to the start of the line and empties it.
const clearLine = "\r\x1b[K"

// Progress returns a function for [check.Options].OnEvent that writes to w one line for each check
// that ended. For a terminal use [TerminalProgress].
func Progress(w io.Writer) func(check.Event) {
	return func(e check.Event) {
		if e.Check != nil && e.Result != nil {
			fmt.Fprintf(w, "%d/%d %s %s, %s\n", e.Index, e.Total, e.Check.ID, verdictLabel(e.Result), durationText(e.Result.Took))
		}
	}
}

// TerminalProgress returns a function for [check.Options].OnEvent that rewrites one line of the
// terminal w with how far an examination is, and empties it after the last check. The zero Event
// empties the line too. It is for an examination that ends early.
func TerminalProgress(w io.Writer) func(check.Event) {
	return func(e check.Event) {
		switch {
		case e.Check == nil, e.Result != nil && e.Index == e.Total:
			fmt.Fprint(w, clearLine)
		case e.Result == nil:
			fmt.Fprintf(w, "%s%d/%d %s …", clearLine, e.Index, e.Total, e.Check.ID)
		}
	}
}
