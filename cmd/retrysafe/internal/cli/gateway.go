package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/gateway/config"
)

type gatewayFlags struct {
	config                          string
	check                           string
	alive                           bool
	listen, store, admin, accessLog string
	namespace                       string
	upstream                        []string
	lease, retention                time.Duration
	inProgress, onDoubt             string

	isGiven func(name string) bool // whether a flag was given
	current *gatewayConfig         // the configuration in use
}

func gatewayCommand() *cobra.Command {
	var f gatewayFlags
	c := &cobra.Command{
		Use:   "gateway --upstream URL",
		Short: "Run a proxy that makes the requests to a service safe to repeat",
		Long: "gateway is a reverse proxy. It sends a POST or PATCH that carries an Idempotency-Key to the service at\n" +
			"most once. Every duplicate gets the first answer. If the outcome of a request is unknown, its duplicates get\n" +
			"409 outcome-unknown and the service gets nothing, unless --on-doubt is reexecute.\n\n" +
			"SIGHUP: reload the configuration, the certificate and the access log, without losing a request.\n" +
			"SIGTERM: accept no new requests, finish those in flight, and exit.\n\n" +
			"RETRYSAFE_SECRET is the secret of the digests of credentials. Set it to the same value on all gateways of one store.\n" +
			"RETRYSAFE_SEAL_KEYS is the text of a key file; with it, stored answers are encrypted (docs/sealed.md).\n" +
			"OTEL_EXPORTER_OTLP_ENDPOINT and the other variables of OpenTelemetry turn on the export of spans and metrics.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f.isGiven = c.Flags().Changed
			s, err := f.readConfig()
			if err != nil {
				return &usageError{err}
			}
			if f.check != "" {
				return f.checkConfig(c, s)
			}
			if f.alive {
				return checkHealth(c.Context(), s.Admin)
			}
			f.current = s
			return runGateway(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), &f, s)
		},
	}
	c.Flags().StringVar(&f.config, "config", "", "configuration file in YAML; docs/gateway.md has its options")
	c.Flags().StringVar(&f.check, "check-config", "", "check the configuration and its files, and exit; =store: connect to the store too, and leave nothing there")
	c.Flags().Lookup("check-config").NoOptDefVal = checkFiles
	c.Flags().BoolVar(&f.alive, "alive", false, "ask the running gateway of this configuration whether it is healthy, and exit: 0 if it is, else 1")
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1:8080", "address to listen on")
	c.Flags().StringSliceVar(&f.upstream, "upstream", nil, "address of the service, for example http://127.0.0.1:9000; can be repeated")
	c.Flags().StringVar(&f.store, "store", "sqlite:retrysafe.db", "where records are kept: memory:, sqlite:PATH, redis://HOST, redis+sentinel://HOST/NAME, redis+cluster://HOST, postgres://HOST/DATABASE or mysql://HOST/DATABASE")
	c.Flags().StringVar(&f.namespace, "namespace", "", "name of this service in the store; required on Redis, PostgreSQL and MySQL, otherwise the default is app")
	c.Flags().StringVar(&f.admin, "admin", "", "address of the admin server: /healthz, /readyz, /metrics; none by default")
	c.Flags().StringVar(&f.accessLog, "access-log", "off", "log one JSON line for each request: off, stdout, or a file")
	c.Flags().DurationVar(&f.lease, "lease", 30*time.Second, "lease of an attempt; heartbeats extend it")
	c.Flags().DurationVar(&f.retention, "retention", 24*time.Hour, "how long a stored answer is replayed")
	c.Flags().StringVar(&f.inProgress, "in-progress", "reject", `how a duplicate is answered while the first request runs: reject, or "wait 5s"`)
	c.Flags().StringVar(&f.onDoubt, "on-doubt", "refuse", "what to do if an earlier request may have taken effect: refuse or reexecute")
	return c
}

// The values of --check-config.
const (
	checkFiles = "files"
	checkStore = "store"
)

// checkConfig reports what a start with a valid configuration would refuse or warn about.
func (f *gatewayFlags) checkConfig(c *cobra.Command, s *gatewayConfig) error {
	if f.check != checkFiles && f.check != checkStore {
		return &usageError{fmt.Errorf("--check-config=%s: write --check-config, or --check-config=store", f.check)}
	}
	opts, err := s.engineOptions()
	if err != nil {
		return err
	}
	if err := s.checkFileWarnings(c.ErrOrStderr()); err != nil {
		return err
	}
	if f.check == checkStore {
		if err := f.connectStore(c, s, opts.Secret); err != nil {
			return err
		}
	}
	routes := "routes"
	if len(s.gateway.Routes) == 1 {
		routes = "route"
	}
	fmt.Fprintf(c.OutOrStdout(), "retrysafe gateway: the configuration is good: %d %s\n", len(s.gateway.Routes), routes)
	return nil
}

// connectStore opens the store, which logs its warnings, and compares the secret.
func (f *gatewayFlags) connectStore(c *cobra.Command, s *gatewayConfig, secret []byte) (err error) {
	log := newLogger(c.ErrOrStderr())
	f.warnTwoStores(s, log)
	if n, _ := parseStore(s.Store); n.path != "" {
		if _, err := os.Stat(n.path); errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(c.ErrOrStderr(), "retrysafe gateway: store sqlite:%s does not exist yet; a start makes it\n", n.path)
			return nil
		}
	}
	store, closeStore, err := openStore(c.Context(), s.Store, log, toInspect, s.settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	records, err := admin.NewRecords(store, &admin.RecordsOptions{Secret: secret, Logger: log})
	if err != nil {
		return err
	}
	return requireSameSecret(c.Context(), records, cmp.Or(s.Namespace, "app"))
}

func (f *gatewayFlags) parsePolicy() (retrysafe.Policy, error) {
	p := retrysafe.Policy{Lease: f.lease, Retention: f.retention}
	var err error
	if p.Wait, err = config.ParsePatience(f.inProgress); err != nil {
		return p, fmt.Errorf("--in-progress %w", err)
	}
	switch f.onDoubt {
	case "refuse":
		p.OnDoubt = retrysafe.Refuse
	case "reexecute":
		p.OnDoubt = retrysafe.Reexecute
	default:
		return p, fmt.Errorf("--on-doubt %q: write refuse or reexecute", f.onDoubt)
	}
	return p, p.Validate()
}
