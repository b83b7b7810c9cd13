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

// Body as ID takes the body's SHA-256 for it: for events that have an id in no place that is
// signed, and are sent again byte for byte.
const Body = "body"

// DefaultRetention is how long an event is remembered: providers send again for up to three days,
// and people press "resend" later.
const DefaultRetention = 30 * 24 * time.Hour

// Options configure a [Callback].
type Options struct {
	// Provider names whose events these are, for example "stripe". Events of different providers,
	// or of two accounts of one, never meet if their names differ. Required.
	Provider string
	// ID says where the event's id is: a JSON pointer ("/id"), a field of a form ("notify_id"),
	// [Body] where there is none, or "header:X-Event-Id". Required. Take the id of the event, not
	// that of the order: an order has several events. What has none is refused (400 key-not-made).
	ID string
	// HeaderCovered says that Verify covers the header that ID names. Most signatures cover the
	// body alone, those of this package all: then whoever has seen one event could send it again
	// under other ids, and use up ids of events to come.
	HeaderCovered bool
	// Verify checks that the provider has sent this. Required; [Unverified] says that something
	// before it does.
	Verify Verifier
	// Success is what a repeat of a finished event is told: the words for which the provider stops.
	// Default 200 without a body.
	Success httpidem.StaticAnswer
	// Policy inherits the engine's, but its Retention is [DefaultRetention] unless set, its
	// Duplicate is always Succeed, and OnDoubt has to be said: see the package's comment.
	Policy retrysafe.Policy
	// BodyTime is how long a notification may take to arrive; default 30 s.
	BodyTime time.Duration
	// MaxBody is the largest notification in bytes; default 1 MiB.
	MaxBody int64
	// Refused is told why a notification was refused by Verify, for logs; may be nil. The request's
	// body is not for logs.
	Refused func(*http.Request, error)
}

// Validate says what is wrong with o for an engine with the policy base.
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
	return errors.Join(append(errs, o.guard().Validate(base))...)
}

// guard are the options of the middleware within.
func (o *Options) guard() *httpidem.Options {
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
		Tenant: httpidem.Global, Key: httpidem.Fields, Fields: []string{id}, AnyPayload: true, Policy: p, Succeed: o.Success, MaxBody: o.MaxBody,
		Operation: func(*http.Request) string { return o.Provider }, Layer: "callback",
		Keep: func(status int, h http.Header) retrysafe.Outcome {
			if status >= 500 && refuse && h.Get("Idempotency-Outcome") == "" {
				// kept as an answer it would be one that nobody can change, of an event that was
				// not taken
				return retrysafe.Doubtful
			}
			return 0
		},
	}
}

// bodyDigest is where the handler of a Callback puts the body's digest.
const bodyDigest = "Retrysafe-Body-Sha256"
