package cli

import (
	"bytes"
	"io"
)

// quoteCutter is the output of this process's standard logger. net/http logs bytes that a service
// has sent unasked, and quotes them. They may be a part of a caller's answer, so only the text
// before the quotation is passed on.
type quoteCutter struct{ dest io.Writer }

// Write implements [io.Writer].
func (q quoteCutter) Write(p []byte) (int, error) {
	if i := bytes.IndexByte(p, '"'); i >= 0 {
		_, err := q.dest.Write(append(bytes.TrimSpace(p[:i:i]), '\n'))
		return len(p), err
	}
	return q.dest.Write(p)
}
