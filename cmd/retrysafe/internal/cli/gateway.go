package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway/config"
)

type gatewayFlags struct {
	config                          string
	check, alive                    bool
	listen, store, admin, accessLog string
	namespace                       string
	upstream                        []string
	lease, retention                time.Duration
	inProgress, onDoubt             string

	given   func(name string) bool // whether a flag was given
	current *setup                 // the configuration in use
}

func gatewayCommand() *cobra.Command {
	var f gatewayFlags
	c := &cobra.Command{
		Use:   "gateway --upstream URL",
		Short: "Stand before a service and make its requests safe to repeat",
		Long: "gateway passes requests on to a service. POST and PATCH that carry an Idempotency-Key are sent to it\n" +
			"at most once; every repeat gets the first answer. When nobody knows whether a request took effect, it is\n" +
			"not run again (409 outcome-unknown) unless --on-doubt reexecute says that it may.\n\n" +
			"SIGHUP: read the configuration, the certificate and the access log again, without losing a request.\n" +
			"SIGTERM: take no new requests, let those that run come to their end.\n\n" +
			"RETRYSAFE_SECRET in the environment keys the digests of credentials: set it, the same on all gateways of one store.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f.given = c.Flags().Changed
			s, err := f.setup()
			if err != nil {
				return &usageError{err}
			}
			if f.check {
				fmt.Fprintf(c.OutOrStdout(), "retrysafe gateway: the configuration is good: %d routes\n", len(s.gateway.Routes))
				return nil
			}
			if f.alive {
				return alive(c.Context(), s.Admin)
			}
			f.current = s
			return runGateway(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), &f, s)
		},
	}
	c.Flags().StringVar(&f.config, "config", "", "configuration file in YAML; docs/gateway.md has its options")
	c.Flags().BoolVar(&f.check, "check-config", false, "say whether the configuration is good, and end")
	c.Flags().BoolVar(&f.alive, "alive", false, "ask the gateway that runs with this configuration whether it lives, and end: 0 if it does, else 1")
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1:8080", "address to listen on")
	c.Flags().StringSliceVar(&f.upstream, "upstream", nil, "address of the service, for example http://127.0.0.1:9000; may be given several times")
	c.Flags().StringVar(&f.store, "store", "sqlite:retrysafe.db", "where records are kept: memory:, sqlite:PATH, redis://HOST, redis+sentinel://HOST/NAME, redis+cluster://HOST, postgres://HOST/DATABASE or mysql://HOST/DATABASE")
	c.Flags().StringVar(&f.namespace, "namespace", "", "names this service in the store; required on Redis, PostgreSQL and MySQL, else app")
	c.Flags().StringVar(&f.admin, "admin", "", "address for operators: /healthz, /readyz, /metrics; none by default")
	c.Flags().StringVar(&f.accessLog, "access-log", "off", "a line of JSON for each request: off, stdout, or a file")
	c.Flags().DurationVar(&f.lease, "lease", 30*time.Second, "how long a request is believed to run without a sign of life")
	c.Flags().DurationVar(&f.retention, "retention", 24*time.Hour, "how long an answer is kept")
	c.Flags().StringVar(&f.inProgress, "in-progress", "reject", `what a repeat meets while the first runs: reject, or "wait 5s"`)
	c.Flags().StringVar(&f.onDoubt, "on-doubt", "refuse", "what becomes of a request that may have taken effect: refuse or reexecute")
	return c
}

func (f *gatewayFlags) policy() (retrysafe.Policy, error) {
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
