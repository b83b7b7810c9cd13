package gateway

import (
	"net/http"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/httpsig"
)

// routeHandler is what serves the requests of a route.
type routeHandler struct {
	name                   string   // for metrics and the access log
	methods                []string // that the middleware guards
	handler, statusHandler http.Handler
	// writes one in the route's form
	writeProblem func(http.ResponseWriter, *http.Request, *httpidem.Problem)
	cors         *cors
	verifier     *httpsig.Verifier // nil: requests need no signature
}

// requireSignature passes requests to next that are signed as the route requires.
func (x *routeHandler) requireSignature(next http.Handler) http.Handler {
	if x.verifier == nil {
		return next
	}
	return x.verifier.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The fields that it names would be removed on the way to the service, though they were
		// signed.
		delete(r.Header, "Connection")
		next.ServeHTTP(w, r)
	}))
}
