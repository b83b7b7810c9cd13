package httpsig

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

// The codes of the refusals of this package; docs/problems has a page for each.
const (
	codeMissing = "signature-missing"
	codeRefused = "signature-refused"
	codeTime    = "signature-expired"
	codeUsed    = "nonce-used"
)

// Refusal is the reason for which a request was not accepted. Its text is for logs: it says what
// was wrong, but shows nothing that the request carries. The client gets the code alone.
type Refusal struct {
	// Code is the code of the problem: signature-missing, signature-refused, signature-expired,
	// nonce-used, body-too-large, body-incomplete, store-unavailable, shutting-down.
	Code string
	err  error
}

// Error says what was wrong.
func (r *Refusal) Error() string {
	return "httpsig: " + r.Code + ": " + strings.TrimPrefix(r.err.Error(), "httpsig: ")
}

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.err }

func newRefusal(err error) *Refusal { return &Refusal{codeRefused, err} }

// lookupRefusal returns the refusal for a failed call of Keys or Nonces.
func lookupRefusal(err error) *Refusal {
	if errors.Is(err, retrysafe.ErrClosed) {
		return &Refusal{"shutting-down", err}
	}
	return &Refusal{"store-unavailable", err}
}

// Problem returns the answer to the client. Only a 503 may be retried, with a new signature.
func (r *Refusal) Problem() *httpidem.Problem {
	p := httpidem.NewProblem(r.Code, r)
	if p.Status == http.StatusServiceUnavailable {
		after := time.Second
		var e *retrysafe.Error
		if errors.As(r.err, &e) && e.RetryAfter > 0 {
			after = e.RetryAfter
		}
		p = p.WithRetryAfter(after)
	}
	return p
}
