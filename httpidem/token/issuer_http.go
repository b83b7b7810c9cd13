package token

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

// given is the answer of [Issuer.ServeHTTP].
type given struct {
	Token     string `json:"token"`
	ExpiresIn int64  `json:"expires_in"` // seconds, rounded down
}

// ServeHTTP issues a token for a POST request: 201 and {"token": "…", "expires_in": 300}, which
// must not be cached. expires_in is how long the token can be used for the first time, in seconds.
// Refusals are problem documents: 403 tenant-missing, 429 too-many-keys with Retry-After, 503
// store-unavailable and shutting-down, and 409 outcome-unknown after an error that says nothing.
// ServeHTTP does not read the body.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "Ask for a token with POST.", http.StatusMethodNotAllowed)
		return
	}
	tenant, err := "", errNoTenant
	if i.o.Tenant != nil {
		tenant, err = i.o.Tenant(r)
	}
	if err != nil {
		httpidem.NewProblem("tenant-missing", err).ServeHTTP(w, r)
		return
	}
	account := tenant
	if i.o.Account != nil {
		account = i.o.Account(r)
	}
	token, err := i.issueFor(r.Context(), tenant, account)
	if err != nil {
		problemOf(err).ServeHTTP(w, r)
		return
	}
	// Marshaling text and a number never fails.
	body, _ := json.Marshal(given{token, int64(i.o.Life / time.Second)})
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(append(body, '\n'))
}

var errNoTenant = errors.New("token: Options.Tenant is not set; name the caller as the routes do that redeem tokens")

func problemOf(err error) *httpidem.Problem {
	var e *retrysafe.Error
	after := time.Second
	if errors.As(err, &e) && e.RetryAfter > 0 {
		after = e.RetryAfter
	}
	code := retrysafe.CodeOf(err)
	switch {
	case errors.Is(err, ErrTooMany):
		code = retrysafe.CodeTooManyKeys
	case errors.Is(err, ErrAnonymous):
		code = retrysafe.CodeTenantMissing
	case code != retrysafe.CodeStoreUnavailable && code != retrysafe.CodeShuttingDown:
		code = retrysafe.CodeOutcomeUnknown
	}
	p := httpidem.NewProblem(code.String(), err)
	if code.Retryable() {
		p.WithRetryAfter(after)
	}
	return p
}
