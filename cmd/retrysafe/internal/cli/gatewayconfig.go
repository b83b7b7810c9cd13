package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/gateway/config"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/stores/sealstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// gatewayConfig is the configuration of a gateway: from the file, or from the flags alone.
type gatewayConfig struct {
	Listen, Admin, Store, AccessLog string
	Namespace                       string
	Upstream                        []string

	gateway *gateway.Options
	policy  retrysafe.Policy
	server  gateway.ServerOptions // without a Logger
	drain   time.Duration
	delay   time.Duration

	settings storeSettings
	ring     *sealstore.Ring // nil: answers are kept in the clear
	file     *config.Config  // nil without a file
}

// readConfig reads the current configuration.
func (f *gatewayFlags) readConfig() (*gatewayConfig, error) {
	s := &gatewayConfig{Listen: f.listen, Admin: f.admin, Store: f.store, Namespace: f.namespace, AccessLog: f.accessLog, Upstream: f.upstream}
	var err error
	if f.config == "" {
		s.settings.copies = config.DefaultCopies
		s.policy, err = f.parsePolicy()
		s.gateway = &gateway.Options{Upstreams: f.upstream, Guard: httpidem.Options{Policy: s.policy}}
		err = errors.Join(err, s.gateway.Validate(s.policy))
		if err == nil {
			s.ring, err = new(sealFlags).readRing()
		}
	} else {
		err = f.readFile(s)
	}
	if err != nil {
		return nil, err
	}
	return s, f.checkAddresses(s)
}

// readFile reads the file. Flags take precedence.
func (f *gatewayFlags) readFile(s *gatewayConfig) error {
	for _, name := range []string{"lease", "retention", "in-progress", "on-doubt"} {
		if f.isGiven(name) {
			return fmt.Errorf("--%s beside --config: say it in the file, under defaults", name)
		}
	}
	c, err := config.Load(f.config)
	if err != nil {
		return err
	}
	if f.isGiven("upstream") {
		c.Upstream = f.upstream
	}
	for name, v := range map[string]struct{ flag, file *string }{
		"listen": {&f.listen, &c.Listen}, "admin": {&f.admin, &c.Admin}, "store": {&f.store, &c.Store}, "namespace": {&f.namespace, &c.Namespace}, "access-log": {&f.accessLog, &c.AccessLog},
	} {
		if f.isGiven(name) {
			*v.file = *v.flag
		}
	}
	s.Listen, s.Admin, s.Store, s.Namespace, s.AccessLog, s.Upstream = c.Listen, c.Admin, c.Store, c.Namespace, c.AccessLog, c.Upstream
	s.file, s.server, s.drain, s.delay = c, *c.ServerOptions(), c.DrainTime(), c.DrainDelay()
	s.settings = storeSettings{acks: c.Acks(), allowEviction: c.AllowEviction(), copies: c.Copies()}
	if s.gateway, s.policy, err = c.Options(); err != nil {
		return err
	}
	s.ring, err = c.SealRing()
	return err
}

// sealStore returns a store that seals what it passes to inner.
func (s *gatewayConfig) sealStore(inner storeapi.Store, log *slog.Logger) (*sealstore.Store, error) {
	o := new(sealstore.Options)
	if s.file != nil {
		var err error
		if o, err = s.file.SealOptions(); err != nil {
			return nil, err
		}
	}
	o.OnUnopened = logUnopened(log)
	return sealstore.New(inner, s.ring, o), nil
}

// readCertificates returns the certificate of the listener and the CAs of client certificates. Each
// is nil if there is none.
func (s *gatewayConfig) readCertificates() (*tls.Certificate, *x509.CertPool, error) {
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

// checkFileWarnings writes what is wrong with the files of the configuration, and returns an error
// if a certificate has expired.
func (s *gatewayConfig) checkFileWarnings(out io.Writer) error {
	var expired []error
	for _, w := range s.fileWarnings() {
		if w.Expired {
			expired = append(expired, &usageError{errors.New(w.Text)})
		} else {
			fmt.Fprintf(out, "retrysafe gateway: warning: %s\n", w.Text)
		}
	}
	return errors.Join(expired...)
}

// logFileWarnings logs what is wrong with the files of the configuration.
func (s *gatewayConfig) logFileWarnings(log *slog.Logger) {
	for _, w := range s.fileWarnings() {
		log.Warn(w.Text)
	}
}

func (s *gatewayConfig) fileWarnings() []config.Warning {
	if s.file == nil {
		return nil // flags alone have no files
	}
	return s.file.Warnings(time.Now())
}

// certificateFiles returns the files with certificates that the gateway reads.
func (s *gatewayConfig) certificateFiles() ([]gateway.CertificateFile, error) {
	if s.file == nil {
		return nil, nil // flags alone have no files
	}
	return s.file.CertificateFiles()
}

// consoleOptions returns the options of the console. They are nil if there is none.
func (s *gatewayConfig) consoleOptions() (o *admin.Options, keep time.Duration, err error) {
	if s.file == nil {
		return &admin.Options{Namespace: s.Namespace, Console: true}, 0, nil // flags alone
	}
	if o, keep, err = s.file.AdminOptions(); o != nil {
		o.Namespace = s.Namespace // the flag takes precedence
	}
	return o, keep, err
}

// checkAddresses checks what can be checked before anything is opened.
func (f *gatewayFlags) checkAddresses(s *gatewayConfig) error {
	if err := needsNamespace(s.Store, s.Namespace); err != nil {
		return f.placeError(s, "store", err)
	}
	if err := (&retrysafe.Options{Namespace: s.Namespace}).Validate(); err != nil {
		return f.placeError(s, "namespace", fmt.Errorf("namespace is longer than %d bytes", retrysafe.MaxPart))
	}
	for name, addr := range map[string]string{"listen": s.Listen, "admin": s.Admin} {
		if _, _, err := net.SplitHostPort(addr); err != nil && addr != "" {
			return f.placeError(s, name, fmt.Errorf("--%s %q: write it like 127.0.0.1:8080; choose another --%s", name, addr, name))
		}
	}
	return nil
}

// placeError returns err with the place of an option, if its value comes from the file.
func (f *gatewayFlags) placeError(s *gatewayConfig, option string, err error) error {
	if s.file == nil || f.isGiven(option) || os.Getenv("RETRYSAFE_"+strings.ToUpper(option)) != "" {
		return err
	}
	return s.file.At(option, err)
}

// engineOptions returns the options of the engine, except for what runs. Its error is that of a
// start without the secret that the store needs.
func (s *gatewayConfig) engineOptions() (*retrysafe.Options, error) {
	o := &retrysafe.Options{Namespace: s.Namespace, Secret: []byte(os.Getenv("RETRYSAFE_SECRET"))}
	if err := o.Validate(); err != nil {
		return nil, &usageError{fmt.Errorf("%w; the secret is RETRYSAFE_SECRET", err)}
	}
	return o, needsSecret(s.Store, o.Secret)
}

// requireReloadable returns an error for a change that a reload cannot make.
func (s *gatewayConfig) requireReloadable(next *gatewayConfig) error {
	var errs []error
	for name, changed := range map[string]bool{
		"listen": s.Listen != next.Listen, "admin": s.Admin != next.Admin, "store": s.Store != next.Store || s.settings != next.settings,
		"access_log": s.AccessLog != next.AccessLog, "namespace": s.Namespace != next.Namespace, "limits": s.server != next.server,
		"seal": (s.ring == nil) != (next.ring == nil) || s.file != nil && next.file != nil && !s.file.SameSeal(next.file),
		"tls":  (s.file != nil && s.file.HasCertificate()) != (next.file != nil && next.file.HasCertificate()),
	} {
		if changed {
			errs = append(errs, fmt.Errorf("%s has changed, which takes a restart", name))
		}
	}
	return errors.Join(errs...)
}
