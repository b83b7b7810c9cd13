package httpidem

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"mime"
	"net/http"
	"time"
)

// maxProblem is the most of an answer that is read for a problem, in bytes.
const maxProblem = 64 << 10

// ProblemFrom reads the problem document (RFC 9457) of an answer: one of this package, or somebody
// else's with the same members, so that a client can go by its Code. Status is the one of the
// answer, and RetrySeconds what Retry-After says. It reads at most 64 KiB and puts them back: the
// body of resp is whole afterwards. False: the answer is no problem document, or too large a one.
func ProblemFrom(resp *http.Response) (*Problem, bool) {
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "application/problem+json" {
		return nil, false
	}
	b, whole := peek(resp, maxProblem)
	if !whole {
		return nil, false
	}
	p := new(Problem)
	if !p.parse(b) {
		return nil, false
	}
	p.Status = resp.StatusCode
	if after, ok := retryAfter(resp.Header, time.Now()); ok {
		p.retryAfter = int(min(max(1, after/time.Second+min(1, after%time.Second)), math.MaxInt32))
	}
	return p, true
}

// parse reads a problem document. Members of another type than theirs are ignored (RFC 9457,
// section 3.1).
func (p *Problem) parse(b []byte) bool {
	if !bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("{")) {
		return false
	}
	err := json.Unmarshal(b, p)
	var wrongType *json.UnmarshalTypeError
	return err == nil || errors.As(err, &wrongType)
}
