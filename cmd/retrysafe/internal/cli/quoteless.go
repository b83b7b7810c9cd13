package cli

import (
	"bytes"
	"io"
)

// quoteless is where the standard logger of this process writes. net/http tells it of bytes that a
// service has sent unasked, and quotes them; they may be a part of somebody's answer, so that only
// the words before the quotation are passed on.
type quoteless struct{ to io.Writer }

// Write implements [io.Writer].
func (q quoteless) Write(p []byte) (int, error) {
	if i := bytes.IndexByte(p, '"'); i >= 0 {
		_, err := q.to.Write(append(bytes.TrimSpace(p[:i:i]), '\n'))
		return len(p), err
	}
	return q.to.Write(p)
}
