package httpidem

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Problem is an answer of the middleware itself: a problem document of RFC 9457. It never contains
// a key, a body or a cause.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Code is stable, for programs to decide by. docs/problems has a page for each code.
	Code string `json:"code"`
	// ErrorCode is 201 (a duplicate, still in progress) or 202 (a duplicate, done) under the policy
	// Reject.
	ErrorCode int `json:"error_code,omitempty"`
	// The rest describes an answer that was not stored.
	AnswerStatus int    `json:"answer_status,omitempty"`
	AnswerLength *int64 `json:"answer_length,omitempty"`
	AnswerSHA256 string `json:"answer_sha256,omitempty"`
	Location     string `json:"location,omitempty"`

	// Challenge is the WWW-Authenticate of a 401, if there is one (RFC 9110, section 11.6.1).
	Challenge string `json:"-"`

	retryAfter int      // seconds; zero: no Retry-After
	dialect    *dialect // nil: a problem document
	cause      error
}

// The values of error_code for a duplicate under the policy Reject.
const (
	errorInProgress = 201
	errorDone       = 202
)

// Error returns the title and what to do.
func (p *Problem) Error() string { return p.Code + ": " + p.Title + "; " + p.Detail }

// Unwrap returns the cause, if there is one.
func (p *Problem) Unwrap() error { return p.cause }

// Codes returns the codes of all problems, sorted.
func Codes() []string {
	var names []string
	for _, c := range retrysafe.Codes() {
		if c.HTTPStatus() != 0 {
			names = append(names, c.String())
		}
	}
	slices.Sort(names)
	return names
}

// NewProblem returns the problem with a code of docs/problems. It panics if there is no such code.
func NewProblem(code string, cause error) *Problem {
	c, ok := retrysafe.ParseCode(code)
	if !ok || c.HTTPStatus() == 0 || code != c.String() {
		panic("httpidem: no problem has the code " + code)
	}
	return problemFor(c, cause)
}

// problemFor returns the problem of a code.
func problemFor(c retrysafe.Code, cause error) *Problem {
	return &Problem{Title: c.Title(), Status: c.HTTPStatus(), Detail: c.Detail(), Code: c.String(), cause: cause}
}

// WithRetryAfter sets the Retry-After header to d, rounded up to whole seconds, at least 1.
func (p *Problem) WithRetryAfter(d time.Duration) *Problem {
	p.retryAfter = max(1, int((d+time.Second-1)/time.Second))
	return p
}

// RetrySeconds returns the seconds of Retry-After, or zero if there is none.
func (p *Problem) RetrySeconds() int { return p.retryAfter }

// WithStatus changes the status, for a code that has several.
func (p *Problem) WithStatus(status int) *Problem {
	p.Status = status
	return p
}

// withJitteredRetry spreads retries over the seconds up to d, so that the duplicates of one key do
// not all retry at the same moment.
func (p *Problem) withJitteredRetry(d time.Duration) *Problem {
	most := min(5, max(1, int((d+time.Second-1)/time.Second)))
	p.retryAfter = 1 + rand.IntN(most)
	return p
}

// ServeHTTP writes the problem. Headers that outer handlers have set (CORS) stay. It may be called
// concurrently.
func (p *Problem) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	said := *p
	if said.Type == "" {
		said.Type = DefaultDocs + p.Code + ".md"
	}
	h := w.Header()
	media, body := said.document()
	h.Set("Content-Type", media)
	h.Set("Cache-Control", "no-store")
	if p.Challenge != "" {
		h.Set("WWW-Authenticate", p.Challenge)
	}
	h.Add("Link", "<"+said.Type+`>; rel="describedby"`)
	h.Del("Content-Length")
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n'))
}

// problemOf returns the answer for a request that the engine did not run.
func problemOf(err error, reject bool) *Problem {
	var e *retrysafe.Error
	var after time.Duration
	if errors.As(err, &e) {
		after = e.RetryAfter
	}
	code := retrysafe.CodeOf(err)
	p := problemFor(code, err)
	switch code {
	case retrysafe.CodeInProgress:
		p.withJitteredRetry(after)
		if reject {
			p.ErrorCode = errorInProgress
		}
	case retrysafe.CodeAttemptFailed:
		p.withJitteredRetry(min(after, 3*time.Second))
	case retrysafe.CodeAlreadyDone:
		p.ErrorCode = errorDone
	case retrysafe.CodeResolvedFailed:
		if f := (*retrysafe.Failure)(nil); errors.As(err, &f) {
			p.Detail = f.Message
		}
	case retrysafe.CodeTooManyKeys, retrysafe.CodeTooManyRequests:
		p.WithRetryAfter(after)
	case retrysafe.CodeOutcomeUnknown:
		if after > 0 && errors.Is(err, retrysafe.ErrInDoubt) {
			// Policy.Reconcile will be asked then
			p.WithRetryAfter(after)
		}
	default:
		if code.Retryable() {
			p.WithRetryAfter(time.Second)
		}
	}
	return p
}

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
	b, whole := peekBody(resp, maxProblem)
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
