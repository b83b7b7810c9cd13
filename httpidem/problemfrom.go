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

// maxProblem is the largest problem document that is read, in bytes.
const maxProblem = 64 << 10

// ProblemFrom parses the problem document (RFC 9457) of an answer, so that a client can decide by
// its Code. It may be one of this package, or another service's with the same members. Status is
// the status of the answer, and RetrySeconds what Retry-After says. It reads at most 64 KiB and
// puts them back: the body of resp is whole afterwards. It returns false if the answer is not a
// problem document, or too large a one.
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
	if after, ok := RetryAfter(resp.Header, time.Now()); ok {
		p.retryAfter = int(min(max(1, after/time.Second+min(1, after%time.Second)), math.MaxInt32))
	}
	return p, true
}

// parse parses a problem document. It ignores members of the wrong type (RFC 9457, section 3.1).
func (p *Problem) parse(b []byte) bool {
	if !bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("{")) {
		return false
	}
	err := json.Unmarshal(b, p)
	var wrongType *json.UnmarshalTypeError
	return err == nil || errors.As(err, &wrongType)
}
