package config

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/token"
	"github.com/retrysafe/retrysafe/stores/sealstore"
)

// Options returns the options of a gateway, and the policy of its engine. It reads the files that
// the configuration names, again at each call. Its error has an [*Error] for each mistake, with the
// place of the option, and the route that it is in.
func (c *Config) Options() (*gateway.Options, retrysafe.Policy, error) {
	policy := c.file.Defaults.policy()
	o := &gateway.Options{
		Upstreams:      c.Upstream,
		KeepHost:       c.file.KeepHost,
		Health:         gateway.Health{Path: c.file.Health.Path, Every: c.file.Health.Every.d, Timeout: c.file.Health.Timeout.d},
		Guard:          c.guardOptions(&c.file.Defaults),
		CORS:           c.file.Defaults.CORS.value,
		Signature:      c.file.Defaults.Signature.optionsFor(&c.file.Defaults, c.file.Limits.BodyTime.d),
		Upgrades:       c.file.Upgrades,
		Bodies:         c.file.Limits.Bodies.n,
		NewByAddress:   c.file.Limits.NewKeys.rate,
		Tokens:         token.Options{Life: c.file.Tokens.Life.d, Rate: int(c.file.Tokens.Rate.n), Outstanding: int(c.file.Tokens.Outstanding.n)},
		TimeoutAnswer:  c.file.Defaults.TimeoutAnswer.d,
		ClientTime:     c.file.Limits.ClientTime.d,
		QuietTime:      c.file.Limits.QuietTime.d,
		ServeRestored:  c.file.ServeRestored,
		TrustedProxies: c.file.TrustedProxies,
	}
	c.file.Defaults.Rate.configureGuard(&o.Guard, "", c.file.TrustedProxies)
	o.TrustedHeaders = addName(nil, c.file.Defaults.Tenant.header)
	err := errors.Join(policy.Validate(), c.readUpstreamCAs(o), c.checkFiles(), c.checkCertificateTenants(), c.addRoutes(o, policy), o.Validate(policy))
	return o, policy, c.explainError(err, 0)
}

// addRoutes adds the routes to o. An error names each that is invalid.
func (c *Config) addRoutes(o *gateway.Options, policy retrysafe.Policy) error {
	var errs []error
	compared, before := comparisons{}, reachableRoutes{}
	for i, r := range c.file.Routes {
		if r.Match.text == "" {
			errs = append(errs, fmt.Errorf("configuration: entry %d of routes has no match; write it like POST /orders/**", i+1))
			continue
		}
		s := r.Settings.inheritFrom(&c.file.Defaults)
		route := gateway.Route{
			Match: r.Match.text, ExactCase: r.Case.exact, ExactExtension: r.Ext.exact, Guard: c.guardOptions(&s), CORS: s.CORS.value,
			Signature: s.Signature.optionsFor(&s, c.file.Limits.BodyTime.d),
			// An inherited time is cut down to a short MaxRun; one that the route itself sets must
			// fit.
			TimeoutAnswer: r.Settings.TimeoutAnswer.d,
		}
		s.Rate.configureGuard(&route.Guard, r.Match.text, c.file.TrustedProxies)
		o.TrustedHeaders = addName(o.TrustedHeaders, s.Tenant.header)
		if err := route.Validate(policy); err != nil {
			errs = append(errs, c.explainError(err, r.Match.line))
			continue
		}
		if err := before.addRoute(&route, r.Match.line); err != nil {
			errs = append(errs, c.explainError(err, r.Match.line))
			continue
		}
		if first := compared.findDifferent(&route, s.Operation, s.Key.v); first != "" {
			errs = append(errs, c.explainError(fmt.Errorf("route %q: fingerprint differs from that of route %q, which has the same operation and so the same keys: a key could be used for another request unnoticed; give both the same fingerprint", r.Match.text, first), r.Match.line))
		}
		if s.Key.v == httpidem.Token && (!s.Tenant.sameCallers(c.file.Defaults.Tenant) || s.Signature.value != c.file.Defaults.Signature.value) {
			errs = append(errs, c.explainError(errors.New("key: token needs the tenant and the signature of defaults, since tokens are issued to those callers; leave tenant and signature out of this route"), r.Match.line))
		}
		o.Routes = append(o.Routes, route)
	}
	return errors.Join(errs...)
}

// addName returns names with name, unless that is empty or among them.
func addName(names []string, name string) []string {
	if name == "" || slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// SealRing reads the master keys of seal, from their file or the environment, again at each call.
// It returns nil and no error if nothing is sealed.
func (c *Config) SealRing() (*sealstore.Ring, error) {
	ring, err := c.file.Seal.readRing()
	if err != nil && placePattern.MatchString(err.Error()) {
		return nil, errorFromMessage(c.name, err.Error(), err)
	}
	return ring, c.explainError(err, 0)
}

// SealOptions returns the options of the sealed store. It creates the directory of data_keys.
func (c *Config) SealOptions() (*sealstore.Options, error) {
	o, err := c.file.Seal.storeOptions()
	return o, c.explainError(err, 0)
}

// SameSeal reports whether next has the same seal, except for what the key file has.
func (c *Config) SameSeal(next *Config) bool { return c.file.Seal.sameSeal(&next.file.Seal) }

// readUpstreamCAs reads the authorities that may vouch for upstreams.
func (c *Config) readUpstreamCAs(o *gateway.Options) error {
	if c.file.CA == "" {
		return nil
	}
	pem, err := os.ReadFile(c.file.CA)
	if o.UpstreamCAs = x509.NewCertPool(); err == nil && !o.UpstreamCAs.AppendCertsFromPEM(pem) {
		err = fmt.Errorf("%s has no certificate in PEM", c.file.CA)
	}
	if err != nil {
		return fmt.Errorf("configuration: upstream_ca: %w", err)
	}
	return nil
}

// checkFiles reports what is wrong with the health checks and the files of tls and seal.
func (c *Config) checkFiles() error {
	var health error
	if c.file.Health.Path == "" && c.file.Health != (healthOptions{}) {
		health = errors.New("configuration: health has no path; write it like health: {path: /healthz}")
	}
	_, certificate := c.Certificate()
	_, clients := c.ClientCAs()
	_, operators := c.file.Operators.adminOptions()
	if c.Admin == "" && !c.file.Operators.Console.off && !reflect.DeepEqual(c.file.Operators, operatorOptions{}) {
		operators = errors.Join(errors.New("configuration: operators says who may use the console, and no address serves it; set admin, for example admin: 127.0.0.1:8081"), operators)
	}
	_, keys := c.SealRing()
	return errors.Join(health, certificate, clients, operators, keys)
}

// AdminOptions returns the options of the console, and how long entries of its audit log are kept.
// It reads the file of the tokens, again at each call. The options are nil if there is no console.
func (c *Config) AdminOptions() (o *admin.Options, keep time.Duration, err error) {
	if c.file.Operators.Console.off {
		return nil, 0, nil
	}
	o, err = c.file.Operators.adminOptions()
	o.Namespace = c.Namespace
	return o, c.file.Operators.Audit.d, c.explainError(err, 0)
}

// checkCertificateTenants reports what is wrong if the certificates of clients name tenants.
func (c *Config) checkCertificateTenants() error {
	named := func(s *settings) bool { return s.Tenant.credentials != nil && s.Tenant.credentials.Certificate }
	switch {
	case !named(&c.file.Defaults) && !slices.ContainsFunc(c.file.Routes, func(r routeOptions) bool { return named(&r.Settings) }):
		return nil
	case c.file.TLS.ClientCA == "":
		return errors.New("configuration: tenant: {certificate: true} needs the certificates of clients; write tls: {cert: …, key: …, client_ca: FILE}")
	case len(c.file.TrustedProxies) > 0:
		return errors.New("configuration: tenant: {certificate: true} cannot be used with trusted_proxies: all clients of a proxy would be one caller, named by the proxy's certificate; " +
			"let the proxy send the client's name in a header, and write tenant: header:NAME")
	}
	return nil
}

// guardOptions returns the options of the middleware for requests with these settings.
func (c *Config) guardOptions(s *settings) httpidem.Options {
	o := httpidem.Options{
		Contract:  s.Contract.v,
		Policy:    s.policy(),
		KeySource: httpidem.KeySource{Form: s.FormKey != nil && *s.FormKey, Field: s.KeyField, Header: c.file.KeyHeader, MinLength: int(s.MinKey.n)},
		Limit:     httpidem.LimitOptions{Age: s.MaxAge.ageOption(), BodyTime: c.file.Limits.BodyTime.d, Body: s.MaxBody.n},
		Answer:    httpidem.AnswerOptions{After5xx: s.After5xx.v, Succeed: s.OnDuplicate.answer, KeepCookies: s.KeepCookies != nil && *s.KeepCookies, Keep: s.Keep.v, NotRun: s.NotRun.all, InProgress: s.InProgress.answer, Outcome: s.Outcome.value},
	}
	s.Key.configureGuard(&o)
	s.Fingerprint.configureGuard(&o)
	switch name := s.Tenant.header; {
	case s.Tenant.global:
		o.Tenant = httpidem.Global // else the gateway's default, the credential
	case s.Tenant.credentials != nil:
		o.Credentials = s.Tenant.credentials
	case s.Tenant.jwt != nil:
		o.Tenant, _ = s.Tenant.jwt.callerFunc() // it was valid when it was parsed
	case name != "":
		o.Tenant = func(r *http.Request) (string, error) {
			if who := r.Header[name]; len(who) == 1 && who[0] != "" {
				return who[0], nil
			}
			return "", fmt.Errorf("the header %s, which names the caller, is missing, empty or there twice; the server before the gateway has to set it", name)
		}
	}
	if name := s.Operation; name != "" {
		o.Request.Operation = func(*http.Request) string { return name }
	}
	return o
}
