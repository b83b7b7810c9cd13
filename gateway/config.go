package gateway

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/token"
)

// Config is the configuration file. Every field except Upstream is optional. The tables of
// docs/gateway.md are generated from the tags.
type Config struct {
	Listen        string        `yaml:"listen" default:"127.0.0.1:8080" doc:"address to listen on"`
	Admin         string        `yaml:"admin" default:"none" doc:"address for operators: /healthz, /readyz, /metrics"`
	TLS           TLSConfig     `yaml:"tls" default:"none" doc:"certificate of listen; read again on SIGHUP"`
	Upstream      addressList   `yaml:"upstream" default:"required" doc:"the service, for example http://127.0.0.1:9000, or a list of its addresses, which get requests in turn"`
	CA            string        `yaml:"upstream_ca" default:"those of the system" doc:"file with the authorities that may vouch for an https:// upstream, in PEM"`
	Health        HealthConfig  `yaml:"health" default:"none" doc:"how upstreams are asked whether they are well"`
	Trusted       prefixList    `yaml:"trusted" default:"none" doc:"addresses of the servers before the gateway that may set a tenant's header, such as 10.0.0.0/8"`
	Store         string        `yaml:"store" default:"sqlite:retrysafe.db" doc:"where records are kept: memory, sqlite:PATH, redis://HOST, redis+sentinel://HOST/NAME, redis+cluster://HOST (rediss for TLS), postgres://HOST/DATABASE or mysql://HOST/DATABASE; one with a password belongs in RETRYSAFE_STORE"`
	Namespace     string        `yaml:"namespace" default:"app, and required where store is a server" doc:"names this service in the store; gateways of one service have the same, and another one is a new key space, in which retries run again"`
	Acks          acks          `yaml:"acks" default:"none" doc:"redis: how many replicas must have a win before it counts: none, all, or a number"`
	AllowEviction bool          `yaml:"allow_eviction" default:"false" doc:"redis: take a server that may drop records for want of memory; each drop lets a key run again"`
	Copies        copies        `yaml:"copies" default:"16MiB" doc:"redis: memory for copies of answers that are asked for again, each used for 10s at most; or off"`
	AccessLog     string        `yaml:"access_log" default:"off" doc:"a line of JSON for each request: off, stdout, or a file, opened again on SIGHUP"`
	Limits        LimitsConfig  `yaml:"limits" default:"below" doc:"limits of the server"`
	Front         onOff         `yaml:"front" default:"on" doc:"serve small guarded requests of HTTP/1.1 without TLS by a server that costs less than net/http's; off: net/http serves all"`
	Drain         duration      `yaml:"drain" default:"the longest timeout_answer and 5s" doc:"grace period for requests in flight at shutdown"`
	Delay         duration      `yaml:"drain_delay" default:"none" doc:"how long new requests are accepted after /readyz reports the shutdown"`
	Tokens        TokensConfig  `yaml:"tokens" default:"below" doc:"the one-time tokens of routes with key: token"`
	Upgrades      []string      `yaml:"upgrades" default:"websocket" doc:"further protocols that a connection may be switched to; what goes over it then is not looked at"`
	KeyHeader     headerList    `yaml:"key_header" default:"Idempotency-Key" doc:"header of the key, or a list: of several the first that is present"`
	Defaults      Settings      `yaml:"defaults" default:"below" doc:"settings of requests that no route matches, inherited by routes"`
	Routes        []RouteConfig `yaml:"routes" default:"none" doc:"what differs; the first that matches counts"`

	name   string // of the file
	source []byte
}

// HealthConfig is [Health] in the file.
type HealthConfig struct {
	Path    string   `yaml:"path" default:"required" doc:"asked for with GET; 200 to 399 is good, two bad answers in a row take the upstream out"`
	Every   duration `yaml:"every" default:"5s" doc:"time between two questions"`
	Timeout duration `yaml:"timeout" default:"2s" doc:"how long an answer may take"`
}

// LimitsConfig is [Limits] in the file.
type LimitsConfig struct {
	Header     size       `yaml:"header" default:"64KiB" doc:"largest head of a request; a larger one meets 431"`
	HeaderTime duration   `yaml:"header_time" default:"10s" doc:"how long a head may take to arrive"`
	BodyTime   duration   `yaml:"body_time" default:"60s" doc:"how long the body of a guarded request may take to arrive; one that is not guarded has so long, and a second more for each KiB"`
	ClientTime duration   `yaml:"client_time" default:"60s" doc:"how long a client may take to read a guarded answer, or a part of another one"`
	QuietTime  duration   `yaml:"quiet_time" default:"5m" doc:"how long an exchange that is not guarded may go without a byte; streams may rest"`
	IdleTime   duration   `yaml:"idle_time" default:"2m" doc:"how long a connection is kept without a request"`
	Bodies     size       `yaml:"bodies" default:"64MiB, or a quarter of GOMEMLIMIT" doc:"memory for the bodies of guarded requests; beyond it the slowest gives way, or a request meets 503"`
	NewKeys    perAddress `yaml:"new_by_address" default:"none" doc:"guarded requests of one address that may begin, {per_s: 5, burst: 50}; repeats do not count, more meets 429; for gateways that see their clients' addresses (trusted)"`
	Conns      count      `yaml:"connections" default:"20000" doc:"connections at once; beyond it the longest idle ones are closed for a new one, or the new one is"`
	Streams    count      `yaml:"streams" default:"250" doc:"requests that one connection of HTTP/2 may have at once"`
}

// TokensConfig configures one-time tokens; see token.Options.
type TokensConfig struct {
	Life        duration `yaml:"life" default:"5m" doc:"how long after its issue a token may be used first, 1s to 720h; one that was used is answered for the retention"`
	Rate        count    `yaml:"rate" default:"60" doc:"tokens that a tenant gets in any minute from one gateway; callers without a credential are counted by address"`
	Outstanding count    `yaml:"outstanding" default:"1000" doc:"tokens of one tenant from one gateway that may be within their life, used or not"`
}

// RouteConfig is one entry of routes.
type RouteConfig struct {
	Match    pattern `yaml:"match" default:"required" doc:"method and path: POST /orders/**; * is one segment, a final ** any rest; * as the method is every guarded one, and every one at all where the route has a signature or a rate"`
	Case     letters `yaml:"case" default:"any" doc:"exact where the service tells /Votes from /votes; any refuses a path that is that of a guarded route but for its case"`
	Ext      letters `yaml:"extension" default:"any" doc:"exact where /votes.json is not /votes to the service; any refuses a path that is that of a guarded route but for an extension, unless a route names it"`
	Settings `yaml:",inline"`
}

// perAddress is a rate for each address.
type perAddress struct{ rate retrysafe.Rate }

func (v *perAddress) UnmarshalYAML(n ast.Node) error {
	var c struct {
		PerS  float64 `yaml:"per_s"`
		Burst count   `yaml:"burst"`
	}
	if isNone(n) {
		return nil
	}
	if err := yaml.NodeToValue(n, &c, yaml.Strict()); err != nil {
		return err
	}
	v.rate = retrysafe.Rate{PerSecond: c.PerS, Burst: c.Burst.n}
	if err := v.rate.Validate(); err != nil {
		return wrong(n, "%s", err)
	}
	return nil
}

// letters is whether the service tells similar paths apart.
type letters struct{ exact bool }

func (v *letters) UnmarshalYAML(n ast.Node) (err error) {
	v.exact, err = choose(n, "exact any", true, false)
	return err
}

// Settings are what a route can set. It inherits a field that is left out.
type Settings struct {
	Key           keyMode         `yaml:"key" default:"optional" doc:"required, optional, token (one that POST /.retrysafe/tokens gave, in the header or in the form field idempotency_key), off; or made of the request: params, {params: …} or {fields: [poll], …}, see below"`
	FormKey       *bool           `yaml:"form_key" default:"false" doc:"take the key from the field idempotency_key of a form where no header has it"`
	MaxAge        AgeConfig       `yaml:"max_age" default:"none" doc:"refuse requests that were made too long ago by the time that they carry: {field: header:Date, max: 5m}"`
	MinKey        count           `yaml:"min_key" default:"22" doc:"least length of keys of callers without a credential"`
	Tenant        tenant          `yaml:"tenant" default:"credential" doc:"credential (from the Authorization header; callers without one are told apart by their cookies), {cookie: …}, {header_secret: …}, {certificate: true} or {binding: …}, see below; global (one key space for all callers), header:NAME (set by a server of trusted, taken away from others), or {jwt: …}, a bearer token that is verified, see below"`
	Operation     string          `yaml:"operation" default:"method and path as sent" doc:"what keys are for; routes that share a name share keys"`
	InProgress    patience        `yaml:"in_progress" default:"reject" doc:"how a duplicate is answered while the first request runs: reject, or wait 5s"`
	OnDoubt       onDoubt         `yaml:"on_doubt" default:"refuse" doc:"what to do if an earlier request may have taken effect: refuse or reexecute"`
	OnDuplicate   duplicate       `yaml:"on_duplicate" default:"replay" doc:"how a duplicate of a finished request is answered: replay, reject, or {status: 200, body: done, content_type: text/plain}"`
	After5xx      after5xx        `yaml:"after_5xx" default:"auto" doc:"auto (keep under refuse, release under reexecute), keep, or release (reexecute only)"`
	Lease         duration        `yaml:"lease" default:"30s" doc:"how long a request is believed to run without a sign of life"`
	MaxRun        duration        `yaml:"max_run" default:"ten leases" doc:"how long one may run at all; a route with a lease of its own gets ten of those"`
	Retention     duration        `yaml:"retention" default:"24h" doc:"how long an answer is kept, or forever"`
	MaxBody       size            `yaml:"max_body" default:"1MiB" doc:"largest request body that is guarded, or signed"`
	MaxAnswer     size            `yaml:"max_answer" default:"1MiB" doc:"largest answer that is kept, at most 1MiB"`
	TimeoutAnswer duration        `yaml:"timeout_answer" default:"60s" doc:"how long to wait for the whole answer; what a route inherits is at most its max_run"`
	CORS          corsOrNone      `yaml:"cors" default:"none" doc:"which pages of other origins may read answers, see below; none leaves that to the service"`
	Rate          rateOrNone      `yaml:"rate" default:"none" doc:"how often a caller may come, repeats too, counted in the store over all gateways: {per_s: 5, burst: 10}; more meets 429"`
	Signature     signatureOrNone `yaml:"signature" default:"none" doc:"requests have to be signed (RFC 9421), see below; who has signed is the tenant, unless tenant says header, jwt or global"`
	KeepCookies   *bool           `yaml:"keep_cookies" default:"false" doc:"keep Set-Cookie with the answer"`

	Limits TenantLimitsConfig `yaml:"limits" default:"none" doc:"what one tenant may have, over all routes and all gateways of the store, or none; more meets 429"`
}

// environment has the variables that override the file, and what they set. A secret can only be set
// here.
var environment = []struct {
	name string
	set  func(*Config, string)
}{
	{"RETRYSAFE_LISTEN", func(c *Config, v string) { c.Listen = v }},
	{"RETRYSAFE_ADMIN", func(c *Config, v string) { c.Admin = v }},
	{"RETRYSAFE_UPSTREAM", func(c *Config, v string) { c.Upstream = strings.Split(v, ",") }},
	{"RETRYSAFE_STORE", func(c *Config, v string) { c.Store = v }},
}

// ParseConfig parses a configuration file and applies the environment on top of it; getenv may be
// nil for no environment. An error says what is wrong, at which line and column, and what would be
// right. [Config.Options] checks what depends on several fields.
func ParseConfig(file []byte, getenv func(string) string) (*Config, error) {
	c := &Config{name: "configuration", source: file}
	in := yaml.NewDecoder(bytes.NewReader(file), yaml.Strict())
	err := in.Decode(c)
	if err != nil && !errors.Is(err, io.EOF) { // an empty file is valid
		return nil, placed("configuration", yaml.FormatError(err, false, false), err)
	}
	if err == nil && !errors.Is(in.Decode(new(any)), io.EOF) {
		return nil, &ConfigError{File: "configuration", Message: "the file has more than one document; write one, without ---"}
	}
	if getenv != nil {
		for _, v := range environment {
			if value := getenv(v.name); value != "" {
				v.set(c, value)
			}
		}
	}
	inherit(&c.AccessLog, "off")
	inherit(&c.Listen, "127.0.0.1:8080")
	inherit(&c.Store, "sqlite:retrysafe.db")
	return c, nil
}

// LoadConfig calls ParseConfig with the file at path and the environment of this process.
func LoadConfig(path string) (*Config, error) {
	file, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	c, err := ParseConfig(file, os.Getenv)
	var wrong *ConfigError
	if errors.As(err, &wrong) {
		wrong.File = path
	}
	if err != nil {
		return nil, err
	}
	c.name = path
	return c, nil
}

// Options returns the options of a gateway, and the policy of its engine. An error names each
// invalid route and its line.
func (c *Config) Options() (*Options, retrysafe.Policy, error) {
	policy := c.Defaults.policy()
	o := &Options{
		Upstreams: c.Upstream, TimeoutAnswer: c.Defaults.TimeoutAnswer.d, Guard: c.guard(&c.Defaults), Trusted: c.Trusted,
		NewByAddress: c.Limits.NewKeys.rate,
		Bodies:       c.Limits.Bodies.n,
		Upgrades:     c.Upgrades,
		QuietTime:    c.Limits.QuietTime.d,
		ClientTime:   c.Limits.ClientTime.d, CORS: c.Defaults.CORS.is, Signature: c.Defaults.Signature.options(&c.Defaults, c.Limits.BodyTime.d),
		Tokens: token.Options{Life: c.Tokens.Life.d, Rate: int(c.Tokens.Rate.n), Outstanding: int(c.Tokens.Outstanding.n)},
		Health: Health{Path: c.Health.Path, Every: c.Health.Every.d, Timeout: c.Health.Timeout.d},
	}
	c.Defaults.Rate.configure(&o.Guard, "", c.Trusted)
	errs := []error{policy.Validate(), c.files(o)}
	tenants := []string{c.Defaults.Tenant.header}
	for i, r := range c.Routes {
		if r.Match.text == "" {
			errs = append(errs, fmt.Errorf("configuration: entry %d of routes has no match; write it like POST /orders/**", i+1))
			continue
		}
		s := r.Settings.or(&c.Defaults)
		// An inherited time is cut down to a short MaxRun; one that the route itself sets must fit.
		route := Route{Match: r.Match.text, ExactCase: r.Case.exact, ExactExtension: r.Ext.exact, TimeoutAnswer: r.TimeoutAnswer.d, Guard: c.guard(&s), CORS: s.CORS.is, Signature: s.Signature.options(&s, c.Limits.BodyTime.d)}
		s.Rate.configure(&route.Guard, r.Match.text, c.Trusted)
		tenants = append(tenants, s.Tenant.header)
		if err := route.validate(policy); err != nil {
			errs = append(errs, c.explain(err, r.Match.line))
			continue
		}
		if s.Key.v == httpidem.Token && (!s.Tenant.same(c.Defaults.Tenant) || s.Signature.is != c.Defaults.Signature.is) {
			errs = append(errs, c.explain(errors.New("key: token goes with the tenant of defaults, for which tokens are issued; leave tenant and signature out"), r.Match.line))
		}
		o.Routes = append(o.Routes, route)
	}
	for _, name := range tenants {
		if name != "" && !slices.Contains(o.FromFronts, name) {
			o.FromFronts = append(o.FromFronts, name)
		}
	}
	errs = append(errs, o.Validate(policy))
	return o, policy, c.explain(errors.Join(errs...), 0)
}

// files reads the files that the configuration names.
func (c *Config) files(o *Options) error {
	var errs []error
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if o.Trust = x509.NewCertPool(); err == nil && !o.Trust.AppendCertsFromPEM(pem) {
			err = fmt.Errorf("%s has no certificate in PEM", c.CA)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("configuration: upstream_ca: %w", err))
		}
	}
	if c.Health.Path == "" && c.Health != (HealthConfig{}) {
		errs = append(errs, errors.New("configuration: health has no path; write it like health: {path: /healthz}"))
	}
	if _, err := c.Certificate(); err != nil {
		errs = append(errs, err)
	}
	if _, err := c.ClientCAs(); err != nil {
		errs = append(errs, err)
	}
	shown := c.Defaults.Tenant.shown
	byCertificate := shown != nil && shown.Certificate ||
		slices.ContainsFunc(c.Routes, func(r RouteConfig) bool { return r.Tenant.shown != nil && r.Tenant.shown.Certificate })
	switch {
	case byCertificate && c.TLS.ClientCA == "":
		errs = append(errs, errors.New("configuration: tenant: {certificate: true} needs the certificates of clients; write tls: {cert: …, key: …, client_ca: FILE}"))
	case byCertificate && len(c.Trusted) > 0:
		errs = append(errs, errors.New("configuration: tenant: {certificate: true} beside trusted would name all clients of such a server by the certificate of that server; "+
			"let it send a header with the client's name, and write tenant: header:NAME"))
	}
	return errors.Join(errs...)
}

// DrainTime returns the value of drain. Zero means the default.
func (c *Config) DrainTime() time.Duration { return c.Drain.d }

// DrainDelay returns the value of drain_delay.
func (c *Config) DrainDelay() time.Duration { return c.Delay.d }

// ServerLimits returns the server's part of limits.
func (c *Config) ServerLimits() Limits {
	l := &c.Limits
	return Limits{Header: l.Header.n, HeaderTime: l.HeaderTime.d, IdleTime: l.IdleTime.d, Connections: int(l.Conns.n), Streams: int(l.Streams.n), NoFront: c.Front.off}
}

func (s *Settings) policy() retrysafe.Policy {
	return retrysafe.Policy{
		Lease: s.Lease.d, MaxRun: s.MaxRun.d, Retention: s.Retention.d, Wait: s.InProgress.wait, OnDoubt: s.OnDoubt.v,
		Duplicate: s.OnDuplicate.v, MaxAnswer: s.MaxAnswer.n, Limits: s.Limits.limits(),
	}
}

func (c *Config) guard(s *Settings) httpidem.Options {
	o := httpidem.Options{
		Policy: s.policy(), FormKey: s.FormKey != nil && *s.FormKey, Age: s.MaxAge.age(), KeyHeader: c.KeyHeader, BodyTime: c.Limits.BodyTime.d, MinKey: int(s.MinKey.n), MaxBody: s.MaxBody.n,
		After5xx: s.After5xx.v, Succeed: s.OnDuplicate.answer, KeepCookies: s.KeepCookies != nil && *s.KeepCookies,
	}
	s.Key.configure(&o)
	switch name := s.Tenant.header; {
	case s.Tenant.global:
		o.Tenant = httpidem.Global // else the gateway's default, the credential
	case s.Tenant.shown != nil:
		o.Credentials = s.Tenant.shown
	case s.Tenant.jwt != nil:
		o.Tenant, _ = s.Tenant.jwt.tenant() // it was valid when it was parsed
	case name != "":
		o.Tenant = func(r *http.Request) (string, error) {
			if who := r.Header[name]; len(who) == 1 && who[0] != "" {
				return who[0], nil
			}
			return "", errors.New("the request has not passed a server that names its caller")
		}
	}
	if name := s.Operation; name != "" {
		o.Operation = func(*http.Request) string { return name }
	}
	return o
}

// or returns s with each field that was left out taken from base. The fields of limits are
// inherited later, by the policy made of them.
func (s Settings) or(base *Settings) Settings {
	if s.Retention == (duration{}) && s.Key.v == httpidem.Params && base.Key.v != httpidem.Params {
		// these keys count for seconds, all others for a day
		s.Retention.d = httpidem.DefaultWindow
	}
	inherit(&s.Key, base.Key)
	inherit(&s.MaxAge, base.MaxAge)
	if !httpidem.Made(s.Key.v) && s.Key.v != httpidem.Off { // forms carry no keys there
		inherit(&s.FormKey, base.FormKey)
	}
	inherit(&s.MinKey, base.MinKey)
	inherit(&s.Tenant, base.Tenant)
	inherit(&s.Operation, base.Operation)
	inherit(&s.InProgress, base.InProgress)
	inherit(&s.OnDoubt, base.OnDoubt)
	inherit(&s.After5xx, base.After5xx)
	if s.MaxRun == (duration{}) && s.Lease == (duration{}) {
		// ten of the route's own leases, not of the inherited one
		s.MaxRun = base.MaxRun
	}
	if s.Key.v != httpidem.Params || base.Key.v == httpidem.Params {
		// the middleware shortens the engine's lease to fit the retention
		inherit(&s.Lease, base.Lease)
	}
	if base.Key.v == httpidem.Params && s.Key.v != httpidem.Params && s.Retention == (duration{}) {
		s.Retention.d = 24 * time.Hour // a retention of seconds is for keys made of parameters
	}
	inherit(&s.Retention, base.Retention)
	inherit(&s.MaxBody, base.MaxBody)
	inherit(&s.MaxAnswer, base.MaxAnswer)
	inherit(&s.KeepCookies, base.KeepCookies)
	inherit(&s.CORS, base.CORS)
	inherit(&s.Rate, base.Rate)
	inherit(&s.Signature, base.Signature)
	if s.OnDuplicate.v == 0 {
		s.OnDuplicate = base.OnDuplicate
	}
	return s
}

// Certificate reads the certificate of tls. It returns nil if there is none.
func (c *Config) Certificate() (*tls.Certificate, error) { return c.TLS.certificate() }

// ClientCAs reads the authorities for client certificates. It returns nil if clients need no
// certificate.
func (c *Config) ClientCAs() (*x509.CertPool, error) { return c.TLS.clientCAs() }
