package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/httpidem"
)

// CORS lets pages of other origins read the answers of a route, including those of the gateway
// itself, and send the key headers (Fetch Standard, "HTTP-requests and CORS"). The gateway answers
// preflights and removes the service's CORS headers: a stored answer would otherwise tell every
// origin what the first one may read. CORS does not stop pages from sending requests, so it does
// not protect against forged requests.
type CORS struct {
	// Origins that may read: https://shop.example, or * alone for all.
	Origins []string
	// Credentials lets pages send cookies and Authorization. It cannot be combined with *.
	Credentials bool
	// Headers that pages may send in addition to the key headers, Accept, Content-Type and
	// Authorization; * for any.
	Headers []string
	// Expose names response headers that pages may read in addition to Idempotency-Replayed,
	// Idempotency-Stored, Retry-After, Location and Link, or what stands for them in the contract.
	Expose []string
	// MaxAge is how long browsers cache the answer to a preflight; default 10 minutes.
	MaxAge time.Duration
}

// Validate reports what is wrong with c. It returns nil if c is valid or nil.
func (c *CORS) Validate() error {
	if c == nil {
		return nil
	}
	var errs []error
	if len(c.Origins) == 0 {
		errs = append(errs, errors.New("gateway: cors names no origin; write them like https://shop.example, or * for all"))
	}
	for _, o := range c.Origins {
		u, err := url.Parse(o)
		if o != "*" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.ToLower(u.Scheme+"://"+u.Host) != o) {
			errs = append(errs, fmt.Errorf("gateway: cors: %q is no origin; write it like https://shop.example, in small letters, without a path", o))
		}
	}
	if slices.Contains(c.Origins, "*") && (c.Credentials || len(c.Origins) > 1) {
		errs = append(errs, errors.New("gateway: cors: * stands alone, without credentials: any page could act as its visitor"))
	}
	for _, name := range slices.Concat(c.Headers, c.Expose) {
		if name != "*" && !httpidem.IsToken(name) {
			errs = append(errs, fmt.Errorf("gateway: cors: %q is no header name", name))
		}
	}
	if c.MaxAge < 0 {
		errs = append(errs, fmt.Errorf("gateway: cors: max_age is %v; use a positive time", c.MaxAge))
	}
	return errors.Join(errs...)
}

// cors is a compiled CORS.
type cors struct {
	*CORS
	allowedHeaders []string // headers that pages may send, in lower case
	expose         string
	maxAge         string
}

// compile returns c for a route: exposed are the fields of its guard that pages may read.
func (c *CORS) compile(keys, exposed []string) *cors {
	if c == nil {
		return nil
	}
	w := &cors{CORS: c, expose: strings.Join(append(exposed, c.Expose...), ", "), maxAge: "600"}
	for _, name := range slices.Concat(keys, []string{"Accept", "Content-Type", "Authorization"}, c.Headers) {
		w.allowedHeaders = append(w.allowedHeaders, strings.ToLower(name))
	}
	if c.MaxAge > 0 {
		w.maxAge = strconv.Itoa(int(c.MaxAge / time.Second))
	}
	return w
}

// allowOrigin sets who may read an answer. It returns false if origin may not.
func (c *cors) allowOrigin(h http.Header, origin string) bool {
	for name := range h {
		if strings.HasPrefix(name, "Access-Control-") {
			delete(h, name)
		}
	}
	all := c.Origins[0] == "*"
	if !all {
		h["Vary"] = append(h["Vary"], "Origin")
	}
	switch {
	case origin == "":
		return false
	case all:
		h["Access-Control-Allow-Origin"] = []string{"*"}
	case slices.Contains(c.Origins, origin):
		h["Access-Control-Allow-Origin"] = []string{origin}
	default:
		return false
	}
	if c.Credentials {
		h["Access-Control-Allow-Credentials"] = []string{"true"}
	}
	return true
}

// answerPreflight answers the request that a browser sends before a request to another origin.
func (c *cors) answerPreflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	method := r.Header.Get("Access-Control-Request-Method")
	if c.allowOrigin(h, r.Header.Get("Origin")) && httpidem.IsToken(method) {
		h["Access-Control-Allow-Methods"] = []string{method}
		h["Access-Control-Max-Age"] = []string{c.maxAge}
		var names []string
		for name := range strings.SplitSeq(r.Header.Get("Access-Control-Request-Headers"), ",") {
			name = strings.ToLower(strings.TrimSpace(name))
			if httpidem.IsToken(name) && (slices.Contains(c.allowedHeaders, name) || slices.Contains(c.allowedHeaders, "*")) {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			h["Access-Control-Allow-Headers"] = []string{strings.Join(names, ", ")}
		}
	}
	h["Vary"] = append(h["Vary"], "Access-Control-Request-Method", "Access-Control-Request-Headers")
	w.WriteHeader(http.StatusNoContent)
}
