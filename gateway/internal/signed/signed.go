// Package signed makes the verifiers of routes whose requests have to be signed.
package signed

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem/httpsig"
)

// Validate reports what is wrong with o; nil is valid. The nonces may be set later.
func Validate(o *httpsig.Options) error {
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

// New returns the verifier for signed, or nil if requests need no signature. Headers of keys must
// be signed. docs is the address of the problem pages. Nonces that are not set are kept by e.
func New(e *retrysafe.Engine, signed *httpsig.Options, docs string, keys []string, log *slog.Logger) *httpsig.Verifier {
	if signed == nil {
		return nil
	}
	o := *signed
	o.IfPresent = slices.Clone(o.IfPresent)
	for _, name := range keys {
		o.IfPresent = append(o.IfPresent, strings.ToLower(name))
	}
	if o.Nonces == nil {
		o.Nonces = httpsig.NoncesOn(e)
	}
	if o.Docs == "" {
		o.Docs = docs
	}
	if o.OnRefused == nil {
		o.OnRefused = func(r *http.Request, why *httpsig.Refusal) {
			log.Info("signature refused", slog.String("method", r.Method), slog.String("path", r.URL.EscapedPath()), slog.String("why", why.Error()))
		}
	}
	return httpsig.New(&o)
}
