package admin

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/lock"
)

// Options are how a Server works. A nil *Options and the zero value let callers on the loopback
// interface view.
type Options struct {
	// Tokens are those of callers; see [ParseTokens]. If they are not nil, even without one in
	// them, every caller needs a token, or TrustedProxy.
	Tokens Tokens
	// TrustedProxy is a server before this one that authenticates callers. If it is not nil, a
	// caller that it does not name needs a token.
	TrustedProxy *TrustedProxy
	// Audit gets an entry before each change and each look at what is hidden. Nil: nothing can be
	// changed or revealed.
	Audit *Audit
	// Namespace is the one that callers reach, and whose audit log has what is not about a record.
	// Empty: they reach all of the store.
	Namespace string
	// Namespaces are others that callers reach too. Each caller has its roles in all of them.
	Namespaces []string
	// AllNamespaces lets callers reach all of the store; Namespace is the one that is shown at
	// first.
	AllNamespaces bool
	// Outboxes are transactional outboxes, by a name for people.
	Outboxes map[string]Outbox
	// DeadLetters are the dead letters of consumers, by a name for people.
	DeadLetters map[string]*DeadLetters
	// Locks are backends of package lock, by a name for people.
	Locks map[string]lock.Lister
	// Traffic reports what a gateway does; nil without one.
	Traffic Traffic
	// Console serves the page of the console at /. It is left out if it is false.
	Console bool
	// OnRefused, if set, is called with the code of each answer 401, 403 and 415; the codes are a
	// fixed set of words. It may be called concurrently.
	OnRefused func(code string)
	// Logger gets the errors of the store, and who was refused. Default: none.
	Logger *slog.Logger
}

// Server serves the API and the console. It is safe for concurrent use.
type Server struct {
	records *Records
	o       Options
	mux     *http.ServeMux
	csrf    *http.CrossOriginProtection
	slots   workSlots // requests that are worked on

	refusals logLimiter
	failures logLimiter
}

// New returns a Server. The error says what of the options cannot be used.
func New(d *Records, options *Options) (*Server, error) {
	var o Options
	if options != nil {
		o = *options
	}
	if err := o.TrustedProxy.Validate(); err != nil {
		return nil, err
	}
	if err := o.validateReach(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		records: d, o: o, mux: http.NewServeMux(), csrf: http.NewCrossOriginProtection(),
		slots: make(workSlots, mostAtOnce),
	}
	for i := range routes {
		s.mux.HandleFunc(routes[i].method+" "+prefix+routes[i].path, s.handlerFor(&routes[i]))
	}
	s.mux.HandleFunc("GET "+prefix+"/openapi.json", s.openAPI)
	s.mux.HandleFunc(prefix+"/", s.answerUnknownPath)
	if o.Console {
		s.mux.Handle("/", consoleHandler())
	}
	return s, nil
}

// prefix begins the paths of the API.
const prefix = "/api/v1"

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'")
	setTimeLimits(w)
	if s.csrf.Check(r) != nil || strings.HasPrefix(r.URL.Path, prefix+"/") && isCrossSite(r) {
		p := newProblem(http.StatusForbidden, "cross-origin", "this request came from a page of another site")
		_, route := s.mux.Handler(r)
		s.reportRefusal(r, "", strings.Replace(route, prefix, "", 1), p)
		p.write(w)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// answerUnknownPath answers a request that is for no route.
func (s *Server) answerUnknownPath(w http.ResponseWriter, r *http.Request) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := *r
		other.Method = method
		if _, pattern := s.mux.Handler(&other); strings.HasPrefix(pattern, method+" ") {
			w.Header().Set("Allow", method)
			newProblem(http.StatusMethodNotAllowed, "no-such-method", "this path has "+method+" only").write(w)
			return
		}
	}
	newProblem(http.StatusNotFound, "no-such-path", "there is nothing here; "+prefix+"/openapi.json has what there is").write(w)
}

// route is one operation of the API.
type route struct {
	method, path string
	need         Roles
	summary      string
	query        []parameter
	in, out      any // zero values of the documents; in is nil without a body
	handle       func(*apiCall) (any, error)
}

// parameter is one of the query.
type parameter struct{ name, kind, doc string }

// apiCall is one request that was let in.
type apiCall struct {
	*Server
	r      *http.Request
	caller Caller
	origin string // how the caller is known
	body   []byte
}

// handlerFor returns the HTTP handler of a route.
func (s *Server) handlerFor(to *route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &apiCall{Server: s, r: r}
		out, err := c.perform(to, w)
		var text []byte
		if err == nil {
			text, err = marshalPrintable(out)
		}
		if err != nil {
			var p *Problem
			if !errors.As(err, &p) {
				s.logFailure(to.path, err)
			}
			p = problemOf(err)
			s.reportRefusal(r, c.caller.Name, to.method+" "+to.path, p)
			p.write(w)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		writeAnswer(w, http.StatusOK, text)
	}
}

// perform lets the caller in and does what it asks for.
func (c *apiCall) perform(to *route, w http.ResponseWriter) (out any, err error) {
	if c.caller, c.origin, err = c.Server.identifyCaller(c.r); err != nil {
		return nil, newProblem(http.StatusUnauthorized, "unauthenticated", err.Error())
	}
	if !c.caller.Roles.Has(to.need) {
		return nil, c.forbiddenProblem(to.need)
	}
	if err := to.checkQuery(c.r.URL.RawQuery); err != nil {
		return nil, err
	}
	if c.body, err = readBody(to, w, c.r); err != nil {
		return nil, err
	}
	if err := c.slots.acquire(c.r.Context()); err != nil {
		return nil, err
	}
	defer c.slots.release()
	return to.handle(c)
}

// checkQuery reports what of a query does not belong to the route. A parameter that is not known,
// or is there twice, would not select what its sender means.
func (r *route) checkQuery(query string) error {
	names := []string{}
	for _, p := range r.query {
		names = append(names, p.name)
	}
	known := "the parameters of this are " + strings.Join(names, ", ")
	if len(names) == 0 {
		known = "this has no parameters"
	}
	q, err := url.ParseQuery(query)
	if err != nil {
		return badRequest("the parameters cannot be read; " + known)
	}
	for name, values := range q {
		switch {
		case !slices.Contains(names, name):
			return badRequest("there is a parameter that is not known; " + known)
		case len(values) > 1:
			return badRequest("the parameter " + name + " is there twice; " + known)
		}
	}
	return nil
}

// numberParameter returns a parameter of the query, or fallback without one.
func (c *apiCall) numberParameter(name string, fallback, most int) (int, error) {
	text := c.r.URL.Query().Get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, badRequest(name + " is a number from 0 to " + strconv.Itoa(most))
	}
	return n, nil
}

// pageLimit returns the length of a page: the parameter limit, or 100 without one.
func (c *apiCall) pageLimit() (int, error) {
	n, err := c.numberParameter("limit", 100, 1000)
	if err != nil || n == 0 {
		return 0, badRequest("limit is a number from 1 to 1000")
	}
	return n, nil
}

// lookJSON is a request for what is hidden.
type lookJSON struct {
	Reason string `json:"reason" doc:"why; it is written to the audit log"`
}

// doReveal looks at what is hidden of an object, with its entries in an audit log. The reason is in
// the body, so that it stands in no address and no access log.
func (c *apiCall) doReveal(log *Audit, object string, look func() error) error {
	var in lookJSON
	if err := c.decodeBody(&in); err != nil {
		return err
	}
	if err := checkReason(in.Reason); err != nil {
		return err
	}
	return c.doAudited(log, Entry{Action: "reveal", Object: object, Reason: in.Reason}, func() (string, error) { return "", look() })
}

// doAudited does an action with its entries in an audit log. do returns what the entry of the
// result says in detail; empty: the detail of e.
func (c *apiCall) doAudited(log *Audit, e Entry, do func() (string, error)) error {
	if log == nil {
		return newProblem(http.StatusForbidden, "no-audit", "this server has no audit log, so nothing is changed or revealed here")
	}
	if err := c.checkSecret(log.namespace); err != nil {
		return err
	}
	e.Who, e.Origin = c.caller.Name, c.origin
	begun, err := log.Begin(c.r.Context(), e)
	if err != nil {
		return err
	}
	detail, err := do()
	return begun.End(c.r.Context(), detail, err)
}

// checkReason returns an error unless reason can stand in the audit log.
func checkReason(reason string) error {
	e := Entry{Who: anonymous, Reason: reason}
	if err := e.RequireReason(); err != nil {
		return badRequest(err.Error())
	}
	return nil
}

// toSeconds is a time span in a document.
func toSeconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }
