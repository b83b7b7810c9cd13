package gateway

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsig"
)

// validateSignature says what is wrong with o, whose nonces may come later.
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

// engineNonces stands for those of the engine, which comes later.
type engineNonces struct{ httpsig.Nonces }

// verifier makes what verifies the requests of a route; nil: nothing does. What may have the key
// has to be signed.
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

// verified passes on to next what is signed as the route asks for.
func (x *routed) verified(next http.Handler) http.Handler {
	if x.signed == nil {
		return next
	}
	return x.signed.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// What it names would be taken from the request on its way to the service, though it was
		// signed.
		delete(r.Header, "Connection")
		next.ServeHTTP(w, r)
	}))
}
