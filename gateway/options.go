package gateway

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway/internal/signed"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/httpsig"
	"github.com/retrysafe/retrysafe/httpidem/token"
)

// Options configure a [Gateway]. Upstreams is required; all other fields have a default.
type Options struct {
	// Upstreams are the addresses of the service: http:// or https://, host, and optionally a path
	// that is put before the path of every request. They get requests in turn. Any of them may get
	// the duplicate of a key, since records are in the store. At least one is required.
	Upstreams []string
	// KeepHost sends the Host of the client's request to the service. By default the service gets
	// the host of its address, and the client's in X-Forwarded-Host. With KeepHost clients choose
	// the Host that the service gets, so it has to refuse hosts that are not its own. The host is
	// no part of a key: hosts that must not share keys need a gateway each.
	KeepHost bool
	// Health configures the health checks of the upstreams.
	Health Health
	// UpstreamCAs has the authorities that may vouch for an https:// upstream; default: those of
	// the system.
	UpstreamCAs *x509.CertPool
	// Guard says what is guarded and how. Without Tenant and Credentials, the zero
	// [httpidem.Credentials] tell callers apart. Its Layer is "gw" unless set.
	Guard httpidem.Options
	// CORS says which pages of other origins may read answers that no route matches, status answers
	// and tokens. nil: the service sets its own CORS headers.
	CORS *CORS
	// Signature says how requests must be signed that no route matches, and requests for the status
	// and for tokens. nil: they need no signature. Its Nonces are on the engine's store unless set.
	// If Guard has no Tenant, the signer is the tenant.
	Signature *httpsig.Options
	// Routes are the exceptions. The first route that matches counts; Guard applies to requests
	// that no route matches.
	Routes []Route
	// Upgrades are the protocols that a connection may be switched to, in addition to websocket.
	// Requests for other protocols are served as plain HTTP/1.1. The gateway does not look at what
	// is sent after the switch.
	Upgrades []string
	// Bodies is how many bytes of memory the bodies of guarded requests may take; default 64 MiB,
	// or a quarter of GOMEMLIMIT if that is less. See [httpidem.Bodies].
	Bodies int64
	// NewByAddress limits how many guarded requests of one address may begin; the zero Rate means
	// no limit. Duplicates do not count. Each gateway counts in memory. It is for gateways that see
	// the addresses of their clients, by the connection or by TrustedProxies.
	NewByAddress retrysafe.Rate
	// Tokens says how tokens are issued, at POST [TokensPath], if Guard or a route has the key
	// httpidem.Token. Its Tenant is that of Guard unless set; it must be the tenant of the routes
	// that redeem tokens. Its limits start again with each gateway.
	Tokens token.Options
	// TimeoutAnswer is how long a client waits for the whole answer to a guarded request, or for
	// the start of an answer that is passed on as it comes. Default 60 s, or MaxRun if that is
	// shorter. After it the client gets outcome-unknown. Under Refuse, an answer that comes before
	// MaxRun is stored for duplicates.
	TimeoutAnswer time.Duration
	// ClientTime is how long a client may take to read a guarded answer, or one part of an answer
	// that is passed on as it comes; default 60 s. A slower client loses the connection; the answer
	// is stored all the same.
	ClientTime time.Duration
	// ServeRestored runs new keys also while the store is in an older state than was seen before;
	// see [retrysafe.Engine.MarkStore]. Default: they get 503 store-unavailable until an operator
	// accepts that, since they may have run before; known keys are answered.
	ServeRestored bool
	// QuietTime is how long an exchange that is not guarded may go without a byte of the request or
	// of the answer; default 5 min. After it the client gets 504. A body of known length must
	// arrive at 1 KiB a second at least, on the average of Guard.BodyTime (408). Answers without a
	// length, events and connections that have switched protocols are streams, and may pause.
	QuietTime time.Duration
	// TrustedProxies are the addresses of proxies before the gateway. TrustedHeaders are the fields
	// that only those may set (a tenant's name, for example): the gateway removes them from all
	// other requests.
	TrustedProxies []netip.Prefix
	TrustedHeaders []string
	// Monitor counts; its Trace must be among the options of the engine. Default: none.
	Monitor *Monitor
	// AccessLog gets a line for each request: no keys, no bodies, no queries. Default: none. It
	// learns outcomes from the Monitor's Trace.
	AccessLog *slog.Logger
	// Continue returns the context of a request with the trace that its header names, so that the
	// Trace of the engine can continue it. nil: the context has no trace.
	Continue func(context.Context, http.Header) context.Context
	// Propagate sets the fields that carry the trace of the context in a guarded request to the
	// service, for example traceparent and tracestate. They replace those of the client; a field
	// that it sets to no value is left out. nil: the client's own are passed on, as they always are
	// with a request that is not guarded.
	Propagate func(context.Context, http.Header)
	// Logger gets what operators should see: no keys, no bodies, no queries. Default
	// slog.Default().
	Logger *slog.Logger
}

// Validate reports what is wrong with o for an engine with the policy base. It returns nil if o is
// valid.
func (o *Options) Validate(base retrysafe.Policy) error {
	var errs []error
	if len(o.Upstreams) == 0 {
		errs = append(errs, errors.New("gateway: no upstream is given; name the service, for example http://127.0.0.1:9000"))
	}
	for _, s := range o.Upstreams {
		_, err := parseUpstream(s)
		errs = append(errs, err)
	}
	if h := o.Health; h.Path != "" && !strings.HasPrefix(h.Path, "/") || h.Every < 0 || h.Timeout < 0 {
		errs = append(errs, errors.New("gateway: Health needs a path that begins with a slash, and positive times"))
	}
	if o.TimeoutAnswer < 0 || o.ClientTime < 0 || o.QuietTime < 0 {
		errs = append(errs, fmt.Errorf("gateway: TimeoutAnswer is %v, ClientTime %v and QuietTime %v; use positive times, or zero for the defaults", o.TimeoutAnswer, o.ClientTime, o.QuietTime))
	}
	if largest := o.largestBody(); o.Bodies > 0 && o.Bodies <= largest {
		errs = append(errs, fmt.Errorf("gateway: Bodies is %d bytes, and one body may have %d; give room for several", o.Bodies, largest))
	}
	if o.NewByAddress != (retrysafe.Rate{}) {
		errs = append(errs, o.NewByAddress.Validate())
	}
	errs = append(errs, validateGuard(o.Guard, o.TimeoutAnswer, o.Signature != nil, base), o.CORS.Validate(), signed.Validate(o.Signature), o.Tokens.Validate())
	if len(o.TrustedHeaders) > 0 && len(o.TrustedProxies) == 0 {
		errs = append(errs, errors.New("gateway: a tenant by a header (TrustedHeaders) needs servers that may set it: give their addresses in TrustedProxies"))
	}
	for _, r := range o.Routes {
		errs = append(errs, r.Validate(base))
	}
	return errors.Join(errs...)
}

func validateGuard(o httpidem.Options, timeout time.Duration, signed bool, base retrysafe.Policy) error {
	var late, chosen error
	if o.Tenant == nil && !signed && !hasSecret(o.Credentials) {
		chosen = refuseInventedCallers(&o)
	}
	if o.Tenant == nil && o.Credentials == nil {
		o.Tenant = httpidem.Global // stands for the default, which needs the engine
	}
	if run := o.Policy.Or(base).WithDefaults().MaxRun; timeout > run {
		late = fmt.Errorf("gateway: TimeoutAnswer (%v) is longer than a request may run (MaxRun %v); raise Lease or MaxRun", timeout, run)
	}
	return errors.Join(late, chosen, o.Validate(base))
}

// bodyMemory returns the memory for bodies: Bodies if set, and else enough for several of the
// largest.
func (o *Options) bodyMemory() int64 {
	if o.Bodies > 0 {
		return o.Bodies
	}
	return max(httpidem.NewBodies(0).Size(), 4*o.largestBody())
}

// largestBody returns the size of the largest body that is guarded.
func (o *Options) largestBody() int64 {
	most := cmp.Or(o.Guard.Limit.Body, 1<<20)
	for _, r := range o.Routes {
		most = max(most, cmp.Or(r.Guard.Limit.Body, 1<<20))
	}
	return most
}

// hasSecret reports whether callers are named by a whole secret. Callers that show another
// credential are refused if a key is made of fields, and are counted by what they show.
func hasSecret(c *httpidem.Credentials) bool {
	return c != nil && (c.Cookie != "" || c.HeaderSecret != "" || c.Certificate)
}

// refuseInventedCallers refuses options that a caller could bypass with an invented credential for
// each request, since no code here verifies it.
func refuseInventedCallers(o *httpidem.Options) error {
	const who = "and the tenant is the credential, which is not verified: a client that makes up another one is another caller; name callers by jwt, " +
		"by a signature, by a header of a trusted server, or say global"
	var errs []error
	if o.Key == httpidem.Fields {
		errs = append(errs, errors.New("gateway: the key is made of fields, "+who))
	}
	if o.Limit.Rate.PerSecond > 0 && o.Limit.RateBy == nil {
		errs = append(errs, errors.New("gateway: there is a rate for each tenant, "+who+"; or count by address"))
	}
	return errors.Join(errs...)
}

func parseUpstream(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("gateway: the upstream is no http:// or https:// address with a host; write it like http://127.0.0.1:9000")
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, errors.New("gateway: the upstream must be scheme, host and path alone: leave out user, query and fragment")
	}
	return u, nil
}
