package httpidem

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
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
	contract   *profile // nil: a problem document
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

type entry struct {
	status        int
	title, detail string
}

// problems has every code of this package. Each has a page in docs/problems.
var problems = map[string]entry{
	"key-malformed":        {400, "The idempotency key is malformed", ""},
	"key-missing":          {400, "This request needs an idempotency key", "Send a random key in the header, one per logical action, and the same one in each retry. Nothing was done."},
	"key-too-short":        {400, "The idempotency key is too short", "Nothing but its key tells this request from those of strangers, and a short key can be guessed: send 128 random bits or more, for example a UUID, or a credential, with which a key of any length will do. Nothing was done."},
	"caller-ambiguous":     {400, "This request names its caller in two ways", ""},
	"request-ambiguous":    {400, "This request can be read in two ways", "Send the method and the path as the service documents them. Nothing was done."},
	"key-not-made":         {400, "No idempotency key can be made of this request", ""},
	"time-refused":         {400, "The time of this request is not that of now", ""},
	"token-missing":        {400, "This request needs a one-time token", "Ask for a token first, and send it in the key's header or in the form field " + TokenField + ". Nothing was done."},
	"query-malformed":      {400, "The query does not say which request is asked about", "Ask with ?method=POST&path=/orders, and with the key and the credential of that request."},
	"body-incomplete":      {400, "The request body did not arrive whole", "Send the request again with the same key. Nothing was done."},
	"signature-missing":    {401, "This request needs a signature", "Sign it (RFC 9421) with the tag that this service looks for. Nothing was done."},
	"signature-refused":    {401, "The signature of this request is not good", "Nothing was done. Look at the key, at what the signature covers, and at what may have changed the request on its way."},
	"signature-expired":    {401, "The time of this request's signature is not good", "Nothing was done. Set the clock, and send the request again with a new signature and the same idempotency key."},
	"tenant-missing":       {403, "The caller is not known", "Log in, and send the request again with the same key. Nothing was done."},
	"token-refused":        {403, "This one-time token is not good", "This request did nothing. Ask for a new token, unless an earlier request with this one may have gone through: find that out first."},
	"in-progress":          {409, "The first request with this key is still being worked on", "Ask again with the same key after Retry-After."},
	"attempt-failed":       {409, "The attempt that this request waited for ended without an answer", "Send it again with the same key after Retry-After. This request did nothing."},
	"already-done":         {409, "This was done before", "This request did nothing. Look up what the first one made."},
	"outcome-unknown":      {409, "Nobody knows whether the first request with this key took effect", "It is not run again. Find out what became of it before you send it with a new key."},
	"principal-changed":    {409, "This key was used with another credential", "Send the retry with the credential of the first request. Nothing was done."},
	"cookies-changed":      {409, "This key was used with other cookies", "Callers without a credential are told apart by their cookies. Send the retry with the cookies of the first request. The operator of this service can name those that count (binding). Nothing was done."},
	"nonce-used":           {409, "This signed request was accepted before", "This copy did nothing. A retry needs a new signature, and the same idempotency key."},
	"answer-not-kept":      {409, "This was done before, and its answer was not stored", "This request did nothing. Look up what the first one made."},
	"lease-lost":           {409, "Another attempt has taken this key over", "Send the request again with the same key to get its answer."},
	"resolved-failed":      {409, "This was refused for good", ""},
	"body-too-large":       {413, "The request body is too large to be guarded", "Send a smaller body. Nothing was done."},
	"payload-mismatch":     {422, "This key was used with another request", "Use a new key for a new request; a retry repeats the first one to the letter. Nothing was done."},
	"too-many-keys":        {429, "This caller has as many keys or tokens as it may have", "Nothing was done. Send the request again after Retry-After, with the same key if it has one."},
	"no-room":              {503, "There is no room for this body at present", "Nothing was done. Send the request again after Retry-After, with the same key."},
	"too-many-requests":    {429, "This caller asks too often", "This request did nothing. Send it again after Retry-After, with the same key if it has one."},
	"issuer-unavailable":   {503, "The caller cannot be told: the keys of the issuer of its token are not here", "Nothing was done. Send the request again with the same key after Retry-After."},
	"store-unavailable":    {503, "The record of this key cannot be reached", "Nothing was done. Send the request again with the same key after Retry-After."},
	"shutting-down":        {503, "This server is shutting down", "Nothing was done. Send the request again with the same key after Retry-After."},
	"upstream-unreachable": {503, "The service cannot be reached", "The request was not sent. Send it again with the same key after Retry-After."},
}

// Codes returns the codes of all problems, sorted.
func Codes() []string { return slices.Sorted(maps.Keys(problems)) }

// NewProblem returns the problem with a code of docs/problems. It panics if there is no such code.
func NewProblem(code string, cause error) *Problem {
	e, ok := problems[code]
	if !ok {
		panic("httpidem: no problem has the code " + code)
	}
	return &Problem{Title: e.title, Status: e.status, Detail: e.detail, Code: code, cause: cause}
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

// jittered spreads retries over the seconds up to d, so that the duplicates of one key do not all
// retry at the same moment.
func (p *Problem) jittered(d time.Duration) *Problem {
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
	switch {
	case errors.Is(err, retrysafe.ErrInProgress):
		p := NewProblem("in-progress", err).jittered(after)
		if reject {
			p.ErrorCode = errorInProgress
		}
		return p
	case errors.Is(err, retrysafe.ErrDuplicate):
		p := NewProblem("already-done", err)
		p.ErrorCode = errorDone
		return p
	case errors.Is(err, retrysafe.ErrFailedBefore):
		p := NewProblem("resolved-failed", err)
		if f := (*retrysafe.Failure)(nil); errors.As(err, &f) {
			p.Detail = f.Message
		}
		return p
	case errors.Is(err, retrysafe.ErrAttemptFailed):
		return NewProblem("attempt-failed", err).jittered(min(after, 3*time.Second))
	case errors.Is(err, retrysafe.ErrFingerprintMismatch):
		return NewProblem("payload-mismatch", err)
	case errors.Is(err, retrysafe.ErrPrincipalChanged):
		return NewProblem("principal-changed", err)
	case errors.Is(err, retrysafe.ErrNotIssued):
		return NewProblem("token-refused", err)
	case errors.Is(err, retrysafe.ErrTooManyKeys):
		return NewProblem("too-many-keys", err).WithRetryAfter(after)
	case errors.Is(err, retrysafe.ErrTooManyRequests):
		return NewProblem("too-many-requests", err).WithRetryAfter(after)
	case errors.Is(err, retrysafe.ErrInDoubt):
		p := NewProblem("outcome-unknown", err)
		if after > 0 { // Policy.Reconcile will be asked then
			p = p.WithRetryAfter(after)
		}
		return p
	case errors.Is(err, retrysafe.ErrLeaseLost):
		return NewProblem("lease-lost", err).WithRetryAfter(time.Second)
	case errors.Is(err, retrysafe.ErrClosed):
		return NewProblem("shutting-down", err).WithRetryAfter(time.Second)
	case errors.Is(err, retrysafe.ErrAnswerNotKept):
		return NewProblem("answer-not-kept", err)
	case nothingWasDone(err):
		return NewProblem("store-unavailable", err).WithRetryAfter(time.Second)
	}
	// An error that is in no list says nothing about what was done.
	return NewProblem("outcome-unknown", err)
}

// nothingWasDone reports whether err says that the engine could not ask the store for the key, so
// that nothing ran.
func nothingWasDone(err error) bool {
	for _, known := range []error{
		retrysafe.ErrUnavailable, retrysafe.ErrInvalidKey, retrysafe.ErrInTransaction, retrysafe.ErrTooLate,
		errors.ErrUnsupported, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
