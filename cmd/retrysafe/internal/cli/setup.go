package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/gateway/config"
	"github.com/retrysafe/retrysafe/httpidem"
)

// setup is the configuration of a gateway: from the file, or from the flags alone.
type setup struct {
	Listen, Admin, Store, AccessLog string
	Namespace                       string
	Upstream                        []string

	gateway *gateway.Options
	policy  retrysafe.Policy
	limits  gateway.Limits
	drain   time.Duration
	delay   time.Duration

	settings storeSettings
	file     *config.Config // nil without a file
}

// setup reads the current configuration.
func (f *gatewayFlags) setup() (*setup, error) {
	s := &setup{Listen: f.listen, Admin: f.admin, Store: f.store, Namespace: f.namespace, AccessLog: f.accessLog, Upstream: f.upstream}
	var err error
	if f.config == "" {
		s.settings.copies = config.DefaultCopies
		s.policy, err = f.policy()
		s.gateway = &gateway.Options{Upstreams: f.upstream, Guard: httpidem.Options{Policy: s.policy}}
		err = errors.Join(err, s.gateway.Validate(s.policy))
	} else {
		err = f.read(s)
	}
	if err != nil {
		return nil, err
	}
	return s, s.addresses()
}

// read reads the file. Flags take precedence.
func (f *gatewayFlags) read(s *setup) error {
	for _, name := range []string{"lease", "retention", "in-progress", "on-doubt"} {
		if f.given(name) {
			return fmt.Errorf("--%s beside --config: say it in the file, under defaults", name)
		}
	}
	c, err := config.Load(f.config)
	if err != nil {
		return err
	}
	if f.given("upstream") {
		c.Upstream = f.upstream
	}
	for name, v := range map[string]struct{ flag, file *string }{
		"listen": {&f.listen, &c.Listen}, "admin": {&f.admin, &c.Admin}, "store": {&f.store, &c.Store}, "namespace": {&f.namespace, &c.Namespace}, "access-log": {&f.accessLog, &c.AccessLog},
	} {
		if f.given(name) {
			*v.file = *v.flag
		}
	}
	s.Listen, s.Admin, s.Store, s.Namespace, s.AccessLog, s.Upstream = c.Listen, c.Admin, c.Store, c.Namespace, c.AccessLog, c.Upstream
	s.file, s.limits, s.drain, s.delay = c, c.ServerLimits(), c.DrainTime(), c.DrainDelay()
	s.settings = storeSettings{acks: c.Acks.Replicas(), allowEviction: c.AllowEviction, copies: c.Copies.Bytes()}
	s.gateway, s.policy, err = c.Options()
	return err
}

// certificates returns the certificate of the listener and the CAs of client certificates. Each is
// nil if there is none.
func (s *setup) certificates() (*tls.Certificate, *x509.CertPool, error) {
	if s.file == nil {
		return nil, nil, nil // flags alone have no files
	}
	cert, err := s.file.Certificate()
	if err != nil {
		return nil, nil, err
	}
	clients, err := s.file.ClientCAs()
	return cert, clients, err
}

// addresses checks what can be checked before anything is opened.
func (s *setup) addresses() error {
	if err := needsNamespace(s.Store, s.Namespace); err != nil {
		return err
	}
	for name, addr := range map[string]string{"listen": s.Listen, "admin": s.Admin} {
		if _, _, err := net.SplitHostPort(addr); err != nil && addr != "" {
			return fmt.Errorf("--%s %q: write it like 127.0.0.1:8080; choose another --%s", name, addr, name)
		}
	}
	return nil
}

// same returns an error for a change that a reload cannot make.
func (s *setup) same(next *setup) error {
	var errs []error
	for name, changed := range map[string]bool{
		"listen": s.Listen != next.Listen, "admin": s.Admin != next.Admin, "store": s.Store != next.Store || s.settings != next.settings,
		"access_log": s.AccessLog != next.AccessLog, "namespace": s.Namespace != next.Namespace, "limits": s.limits != next.limits,
		"tls": (s.file != nil && s.file.TLS.Cert != "") != (next.file != nil && next.file.TLS.Cert != ""),
	} {
		if changed {
			errs = append(errs, fmt.Errorf("%s has changed, which takes a restart", name))
		}
	}
	return errors.Join(errs...)
}
