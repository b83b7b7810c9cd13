package httpsig

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/httpidem"
)

// Options configure a [Verifier]. Keys and Nonces must be set.
type Options struct {
	// Keys finds the keys of an id; [Keyring] is a fixed set of keys.
	Keys Keys
	// Nonces records used nonces; [NoncesOn] keeps them in the store of an engine.
	Nonces Nonces
	// Authorities are the hosts by which clients address this service, with the port unless it is
	// the default port of the scheme: "api.example". A request that was signed for another host is
	// refused, even if it claims to be for one of these. Empty: any host. Set them if another
	// service verifies signatures by the same keys; otherwise a request that was signed for one can
	// be sent to the other.
	Authorities []string
	// Scheme is "https" if TLS ends before this process. It decides which port is the default.
	// Default: the scheme of the connection.
	Scheme string
	// Require names further components that every signature must cover, so that a request without
	// them is refused: "idempotency-key" on a route that must not act without one. Fields are in
	// lower case.
	Require []string
	// IfPresent names further fields, in lower case, that must be covered if the request has them:
	// all fields that the service acts on. content-digest, content-type, content-encoding and
	// idempotency-key are always among them.
	IfPresent []string
	// Tag is the tag of the signature to look for; default [DefaultTag]. Exactly one signature must
	// have it; others are ignored.
	Tag string
	// Untagged looks for the one signature without a tag.
	Untagged bool
	// MaxAge is how old a signature may be, even if it expires later; default 5 minutes, 1 s to 24
	// h.
	MaxAge time.Duration
	// Skew is how far the client's clock may be off this one, and the clocks of verifiers off the
	// right time; default 30 s, 1 s to 1 h.
	Skew time.Duration
	// MaxBody is the largest body in bytes; default 1 MiB. Larger: 413 body-too-large. The body is
	// held in memory.
	MaxBody int64
	// BodyTime is how long the body may take to arrive before [Verifier.Handler] refuses it (400
	// body-incomplete); default 30 s. The nonce is claimed after the body has arrived; until then
	// one request could be started again and again.
	BodyTime time.Duration
	// Now is the clock; default time.Now.
	Now func() time.Time
	// OnRefused is called with the reason for which a request was refused, for logs and metrics. It
	// must not read the body.
	OnRefused func(*http.Request, *Refusal)
	// ErrorHandler writes refusals in place of problem+json. err is a [*httpidem.Problem].
	ErrorHandler func(w http.ResponseWriter, r *http.Request, err error)
	// Docs is the base URL of the problem pages; default [httpidem.DefaultDocs].
	Docs string
}

// Validate reports what is wrong with o. It returns nil if o is valid.
func (o *Options) Validate() error {
	errs := []error{checkTag(o.Tag, o.Untagged), checkComponents(o.Require), checkComponents(o.IfPresent)}
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("httpsig: "+format, args...)) }
	if o.Keys == nil {
		wrong("Options.Keys is not set; Keyring is a fixed set of keys")
	}
	if ring, ok := o.Keys.(Keyring); ok {
		errs = append(errs, ring.Validate())
	}
	if o.Nonces == nil {
		wrong("Options.Nonces is not set; without it a request could be sent again by anyone who has seen it. NoncesOn keeps them on an engine's store")
	}
	if !slices.Contains([]string{"", "http", "https"}, o.Scheme) {
		wrong("Options.Scheme is %q; use http or https, or leave it out", o.Scheme)
	}
	for _, host := range o.Authorities {
		if _, err := normalizeAuthority(host, o.Scheme); err != nil {
			wrong("Options.Authorities has %q: %w", host, err)
		}
	}
	if o.MaxAge != 0 && (o.MaxAge < time.Second || o.MaxAge > maxAge) {
		wrong("Options.MaxAge is %v; use 1s to 24h, or zero for 5m", o.MaxAge)
	}
	if o.Skew != 0 && (o.Skew < time.Second || o.Skew > time.Hour) {
		wrong("Options.Skew is %v; use 1s to 1h, or zero for 30s", o.Skew)
	}
	if o.BodyTime < 0 {
		wrong("Options.BodyTime is %v; use a positive time, or zero for 30s", o.BodyTime)
	}
	if o.MaxBody < 0 {
		wrong("Options.MaxBody is %d; use a positive number of bytes", o.MaxBody)
	}
	return errors.Join(errs...)
}

// setDefaults sets the defaults.
func (o *Options) setDefaults() {
	o.Require = append(slices.Clone(alwaysCovered), o.Require...)
	o.IfPresent = append(slices.Clone(coveredIfPresent), o.IfPresent...)
	o.Authorities = slices.Clone(o.Authorities)
	if !o.Untagged {
		o.Tag = tagOrDefault(o.Tag)
	}
	if o.MaxAge == 0 {
		o.MaxAge = 5 * time.Minute
	}
	if o.Skew == 0 {
		o.Skew = 30 * time.Second
	}
	if o.MaxBody == 0 {
		o.MaxBody = 1 << 20
	}
	if o.BodyTime == 0 {
		o.BodyTime = 30 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Docs == "" {
		o.Docs = httpidem.DefaultDocs
	}
}
