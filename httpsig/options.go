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
	// Keys finds the keys of an id; [Keyring] is a fixed set of them.
	Keys Keys
	// Nonces remembers what was used; [NoncesOn] keeps it on the store of an engine.
	Nonces Nonces
	// Authorities are the hosts by which clients address this service, with the port unless it is
	// that of the scheme: "api.example". A request that was signed for another host is refused,
	// also if it claims to be for that one. Empty: any host. Set them wherever another service
	// verifies signatures by the same keys, or what was signed for the one can be sent to the
	// other.
	Authorities []string
	// Scheme is "https" where TLS ends before this process: it tells which port goes without
	// saying. Default: as the connection is.
	Scheme string
	// Require are further components that every signature must cover, so that a request without
	// them is refused: "idempotency-key" on a route that is not to act without one. Fields in lower
	// case.
	Require []string
	// IfPresent are further fields that must be covered where the request has them, in lower case:
	// any that the service goes by. Always among them are content-digest, content-type,
	// content-encoding and idempotency-key.
	IfPresent []string
	// Tag says what signatures are looked for; default [DefaultTag]. Exactly one with this tag must
	// be there; others are not looked at.
	Tag string
	// Untagged looks for the one signature without a tag.
	Untagged bool
	// MaxAge is how old a signature may be, whatever it says itself; default 5 minutes, 1 s to 24
	// h.
	MaxAge time.Duration
	// Skew is how far the client's clock may be off this one, and the clocks of verifiers off the
	// right time; default 30 s, 1 s to 1 h.
	Skew time.Duration
	// MaxBody is the largest body in bytes; default 1 MiB. A larger one: 413 body-too-large. It is
	// held in memory.
	MaxBody int64
	// BodyTime is how long the body may take to arrive before [Verifier.Handler] refuses it (400
	// body-incomplete); default 30 s. The nonce is claimed behind the body, so that until then one
	// request could be opened again and again.
	BodyTime time.Duration
	// Now is the clock; default time.Now.
	Now func() time.Time
	// Refused is told why a request was refused, for logs and metrics. It must not read the body.
	Refused func(*http.Request, *Refusal)
	// Answer writes refusals in place of problem+json. err is a [*httpidem.Problem].
	Answer func(w http.ResponseWriter, r *http.Request, err error)
	// Docs is where the problem pages are; default those of this project.
	Docs string
}

// Validate says what is wrong with o.
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
		wrong("Options.Nonces is not set; without it a request could be sent again by whoever has seen it. NoncesOn keeps them on an engine's store")
	}
	if !slices.Contains([]string{"", "http", "https"}, o.Scheme) {
		wrong("Options.Scheme is %q; use http or https, or leave it out", o.Scheme)
	}
	for _, host := range o.Authorities {
		if _, err := authority(host, o.Scheme); err != nil {
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

// fill sets the defaults.
func (o *Options) fill() {
	o.Require = append(slices.Clone(always), o.Require...)
	o.IfPresent = append(slices.Clone(ifThere), o.IfPresent...)
	o.Authorities = slices.Clone(o.Authorities)
	if !o.Untagged {
		o.Tag = tagOr(o.Tag)
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
