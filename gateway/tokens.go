package gateway

import (
	"net/http"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway/internal/clientaddr"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/token"
)

// TokensPath is where clients ask for a token, with POST; see [token.Issuer.ServeHTTP]. If no route
// requires tokens, requests for it go to the service.
const TokensPath = "/.retrysafe/tokens" //nolint:gosec // a path

// newTokenIssuer returns the issuer of the gateway's tokens, or nil if no route requires them.
func (o *Options) newTokenIssuer(e *retrysafe.Engine) *token.Issuer {
	if o.Guard.Key != httpidem.Token && !slices.ContainsFunc(o.Routes, func(r Route) bool { return r.Guard.Key == httpidem.Token }) {
		return nil
	}
	t := o.Tokens
	if t.Tenant == nil {
		t.Tenant = o.Guard.Tenant
	}
	if t.Tenant == nil {
		shown := o.Guard.Credentials
		if shown == nil {
			shown = new(httpidem.Credentials)
		}
		t.Tenant, _ = shown.TenantAndBinding(e)
		t.Account = shown.Account(e, func(r *http.Request) string { return clientaddr.Of(r, o.TrustedProxies) })
	}
	return token.NewIssuer(e, &t)
}

// issueToken answers a request for a token.
func (g *Gateway) issueToken(w http.ResponseWriter, r *http.Request) {
	if g.addressLimiter != nil && r.Method == http.MethodPost {
		begun, refused := g.admitAttempt(r)
		if refused != nil {
			g.writeRefusal(w, r, refused)
			return
		}
		// also if it is refused later: a caller that invents credentials invents accounts
		begun(true)
	}
	if err := g.checkReady(r.Context()); err != nil {
		g.writeRefusal(w, r, httpidem.NewProblem("store-unavailable", err).WithRetryAfter(time.Second))
		return
	}
	g.tokens.ServeHTTP(w, r)
	if aw, ok := w.(*answerWriter); ok && aw.status == http.StatusCreated {
		metricsOf(r.Context()).recordOutcome("issued")
	}
}
