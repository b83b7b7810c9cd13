package gateway

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsig"
)

// validateSignature reports what is wrong with o. Its nonces may be set later.
func validateSignature(o *httpsig.Options) error {
	if o == nil {
		return nil
	}
	full := *o
	if full.Nonces == nil {
		full.Nonces = engineNonces{}
	}
	return full.Validate()
}

// engineNonces is a placeholder for the nonces of the engine, which are set later.
type engineNonces struct{ httpsig.Nonces }

// verifier returns the verifier for the requests of a route, or nil if they need no signature.
// Headers that may have the key must be signed.
func (g *Gateway) verifier(e *retrysafe.Engine, r *Route, keys []string) *httpsig.Verifier {
	if r.Signature == nil {
		return nil
	}
	o := *r.Signature
	o.IfPresent = slices.Clone(o.IfPresent)
	for _, name := range keys {
		o.IfPresent = append(o.IfPresent, strings.ToLower(name))
	}
	if o.Nonces == nil {
		o.Nonces = httpsig.NoncesOn(e)
	}
	if o.Docs == "" {
		o.Docs = r.Guard.Docs
	}
	if o.Refused == nil {
		o.Refused = func(r *http.Request, why *httpsig.Refusal) {
			g.logger.Info("signature refused", slog.String("method", r.Method), slog.String("path", r.URL.EscapedPath()), slog.String("why", why.Error()))
		}
	}
	return httpsig.New(&o)
}

// verified passes requests to next that are signed as the route requires.
func (x *routed) verified(next http.Handler) http.Handler {
	if x.signed == nil {
		return next
	}
	return x.signed.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The fields that it names would be removed on the way to the service, though they were
		// signed.
		delete(r.Header, "Connection")
		next.ServeHTTP(w, r)
	}))
}
