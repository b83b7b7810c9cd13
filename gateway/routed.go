package gateway

import (
	"net/http"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpsig"
)

// routed is what serves the requests of a route.
type routed struct {
	name            string   // for metrics and the access log
	methods         []string // that the middleware guards
	handler, status http.Handler
	// writes one in the route's form
	problem func(http.ResponseWriter, *http.Request, *httpidem.Problem)
	cors    *cors
	signed  *httpsig.Verifier // nil: requests need no signature
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
