package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

// writeRefusal writes a problem of the middleware. It logs what an operator has to mend: cookies
// that change between two tries, which need a change of the configuration, and an issuer whose keys
// cannot be had, with the cause that clients do not see.
func (g *Gateway) writeRefusal(w http.ResponseWriter, r *http.Request, err error) {
	p, ok := err.(*httpidem.Problem) //nolint:errorlint // that is what Answer gets
	if !ok {
		p = httpidem.NewProblem(retrysafe.CodeOf(err).String(), err)
	}
	route := ""
	if v := metricsOf(r.Context()); v != nil {
		route = v.route
	}
	switch p.Code {
	case "cookies-changed":
		g.monitor.countChangedCookies(route)
		g.cookieWarning.Do(func() {
			g.logger.Warn("a duplicate came with other cookies than the first request and was refused; if cookies change between two tries, name "+
				`the one that says who the caller is, in defaults or in the route: tenant: {binding: ["cookie:NAME"]}`, "route", route)
		})
	case "issuer-unavailable":
		if cause := errors.Unwrap(p); cause != nil && r.Context().Err() == nil && g.issuerFailures.mayLog() {
			g.logger.Error("requests are refused, since their tokens cannot be verified", "route", route, "error", cause.Error())
		}
	}
	p.ServeHTTP(w, r)
}

// admitAttempt is the Admit hook of the middleware. A key that is known is not counted.
func (g *Gateway) admitAttempt(r *http.Request) (begun func(bool), refused *httpidem.Problem) {
	if err := g.history.requireHistory(r.Context()); err != nil {
		return nil, historyProblem(err)
	}
	if g.addressLimiter == nil {
		return nil, nil
	}
	counted, wait := g.addressLimiter.countAttempt(g.clientAddress(r))
	if wait > 0 {
		p := httpidem.NewProblem("too-many-keys", retrysafe.ErrTooManyKeys).WithRetryAfter(wait)
		return nil, p
	}
	return func(began bool) {
		if !began {
			g.addressLimiter.uncountAttempt(counted)
		}
	}, nil
}

// historyProblem is the answer to a request that may not run, since the store went back or has not
// answered.
func historyProblem(err error) *httpidem.Problem {
	return httpidem.NewProblem(retrysafe.CodeOf(err).String(), err).WithRetryAfter(time.Second)
}

// CheckSecret returns an error that wraps [retrysafe.ErrSecretChanged] if the secret of the engine
// is not the one that its namespace was used with; see [retrysafe.Engine.CheckSecret]. Call it
// before serving, and do not serve after that error. After any other error the gateway can serve:
// until it has checked the secret itself, it answers guarded requests with 503 store-unavailable,
// as it does if it is not called at all. A gateway that has checked the secret does not ask again.
func (g *Gateway) CheckSecret(ctx context.Context) error { return g.secret.ensurePassed(ctx) }

// readyHook returns the Ready hook of a route, which may have one of its own.
func (g *Gateway) readyHook(own func(context.Context) error) func(context.Context) error {
	if own == nil {
		return g.checkReady
	}
	return func(ctx context.Context) error {
		if err := g.checkReady(ctx); err != nil {
			return err
		}
		return own(ctx)
	}
}

// checkReady returns nil if guarded requests may be served.
func (g *Gateway) checkReady(ctx context.Context) error {
	err := g.secret.ensurePassed(ctx)
	if err != nil {
		metricsOf(ctx).recordOutcome("unavailable")
	}
	return err
}
