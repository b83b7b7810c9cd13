package callback

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/reqfield"
)

// Body as the ID uses the SHA-256 of the body as the event's id. It is for events that have no id
// in a signed place, and that the provider resends byte for byte.
const Body = "body"

// DefaultRetention is how long an event is remembered: providers retry for up to three days, and
// operators press "resend" later.
const DefaultRetention = 30 * 24 * time.Hour

// Options configure a [Callback].
type Options struct {
	// Provider names the source of the events, for example "stripe". Events of different providers,
	// or of two accounts of one provider, are kept apart if their names differ. Required.
	Provider string
	// ID says where the event's id is: a JSON pointer ("/id"), a field of a form ("notify_id"),
	// [Body] if the event has no id, or "header:X-Event-Id". Required. Use the id of the event, not
	// of the order: an order has several events.
	ID string
	// Missing says what an event without the id gets: httpidem.MissingRefuse (default) refuses it
	// with 400 key-not-made, httpidem.MissingPass runs the handler each time. Verify checks both.
	Missing httpidem.Missing
	// HeaderCovered says that Verify covers the header that ID names. Most signatures cover the
	// body alone, as do all verifiers of this package. Then anyone who has seen one event could
	// send it again under other ids, and use up the ids of future events.
	HeaderCovered bool
	// Verify checks that the provider has sent the request. Required; [Unverified] says that
	// something before the callback checks it.
	Verify Verifier
	// Succeed is the answer to a duplicate of a finished event, with which the provider stops
	// retrying. Default 200 without a body.
	Succeed httpidem.StaticAnswer
	// InProgress is the answer to a duplicate while the first delivery is being handled, for a
	// provider that stops sending to an address that answers with errors. Default: 409 in-progress,
	// so that the provider sends the event again. With a success it may not, also if the first
	// delivery then fails.
	InProgress *httpidem.StaticAnswer
	// Policy inherits from the engine's policy, except that its Retention is [DefaultRetention]
	// unless set, its Duplicate is always Succeed, and its OnDoubt must be set: see the package
	// comment.
	Policy retrysafe.Policy
	// BodyTime is how long a notification may take to arrive; default 30 s.
	BodyTime time.Duration
	// MaxBody is the largest notification in bytes; default 1 MiB.
	MaxBody int64
	// OnRefused is called with the reason for which Verify refused a notification, for logs; it may
	// be nil. Do not log the request's body.
	OnRefused func(*http.Request, error)
}

// Validate reports what is wrong with o for an engine with the policy base. It returns nil if o is
// valid.
func (o *Options) Validate(base retrysafe.Policy) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("callback: "+format, args...)) }
	if o.Provider == "" {
		wrong("Provider is not set; name whose events these are, for example stripe")
	}
	_, err := reqfield.Parse(o.ID)
	switch {
	case err != nil:
		wrong("ID: %w", err)
	case strings.HasPrefix(o.ID, "query:"):
		wrong("ID is %q; signatures of providers do not cover the query, so name a place in the body", o.ID)
	case strings.HasPrefix(o.ID, "header:") && !o.HeaderCovered:
		wrong("ID is %q, and signatures cover the body alone; name a place in the body, or callback.Body, or set HeaderCovered where Verify covers that header", o.ID)
	}
	if o.BodyTime < 0 {
		wrong("BodyTime is %v; use a positive time", o.BodyTime)
	}
	if o.Verify == nil {
		wrong("Verify is not set; check the provider's signature (Stripe, Alipay, WeChatPay, HMAC), or say Unverified if something before this has done it")
	}
	if o.Policy.OnDoubt == 0 {
		wrong("Policy.OnDoubt is not set; say Reexecute where the work is in DoTx or does no harm twice, so that an event whose handler failed runs " +
			"again, or Refuse where people settle what may have had its effect")
	}
	return errors.Join(append(errs, o.guardOptions().Validate(base))...)
}

// guardOptions returns the options of the inner middleware.
func (o *Options) guardOptions() *httpidem.Options {
	p := o.Policy
	if p.Retention == 0 {
		p.Retention = DefaultRetention
	}
	p.Duplicate = retrysafe.Succeed
	id, refuse := o.ID, p.OnDoubt == retrysafe.Refuse
	if id == Body {
		id = "header:" + bodyDigest
	}
	return &httpidem.Options{
		Tenant: httpidem.Global,
		Key:    httpidem.Fields,
		Request: httpidem.RequestOptions{
			Operation: func(*http.Request) string { return o.Provider },
			Fields:    []string{id}, AnyPayload: true, Missing: o.Missing,
		},
		Answer: httpidem.AnswerOptions{
			InProgress: o.InProgress, Succeed: o.Succeed,
			Classify: func(status int, h http.Header) retrysafe.Outcome {
				if status >= 500 && refuse && h.Get("Idempotency-Outcome") == "" {
					// If it were stored, no one could change the answer of an event that was not
					// handled.
					return retrysafe.Doubtful
				}
				return 0
			},
		},
		Limit:  httpidem.LimitOptions{Body: o.MaxBody},
		Policy: p, Layer: "callback",
	}
}

// bodyDigest is the field in which the handler of a Callback puts the body's digest.
const bodyDigest = "Retrysafe-Body-Sha256"
