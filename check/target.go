package check

import (
	"context"
	"net/http"
	"time"
)

// Target is the API that is examined, and what the caller knows about it. Only Request is
// required; each other field lets checks decide more.
type Target struct {
	// Request is a request that takes effect each time it is sent with a new key. It is sent many
	// times.
	Request Request
	// KeyHeader is the field that carries the key. Default: Idempotency-Key.
	KeyHeader string
	// NewKey makes a key. Default: a random UUID.
	NewKey func() string
	// Oracle counts the effects.
	Oracle Oracle

	// OtherBody is another valid body for Request. Default: Request.Body with another number or
	// string, if it is JSON or a form.
	OtherBody []byte
	// OtherRoute is a request of another operation of the API that takes a key too.
	OtherRoute *Request
	// OtherCaller has the fields of a second caller's credentials.
	OtherCaller http.Header
	// Credentials are the names of the fields of Request that carry credentials. Default: those of
	// Authorization, Cookie and X-Api-Key that Request has.
	Credentials []string
	// ClientError, TooMany and ServerError make the API answer a request with 400 to 428, with 429,
	// and with 500 to 599.
	ClientError, TooMany, ServerError *Trouble
	// Restart ends the service and starts it again. It returns when the service was started; it
	// need not be ready yet.
	Restart func(ctx context.Context) error
	// Kept is how long the API promises to keep answers.
	Kept time.Duration
	// Contract is the name of a profile that is checked to the letter: ietf, stripe or acp.
	Contract string
}

// Trouble makes a request fail while it is on.
type Trouble struct {
	// Header has fields that make the API fail when they are added to the request.
	Header http.Header
	// Body is sent in place of the request's body.
	Body []byte
	// On and Off make the service fail and let it work again. Off is called after each On, also if
	// On failed or the examination was interrupted.
	On, Off func(ctx context.Context) error
}
