package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/httpidem"
)

type gatewayFlags struct {
	config                         string
	check                          bool
	listen, store, admin           string
	upstream                       []string
	lease, retention               time.Duration
	inProgress, onDoubt            string
}

func gatewayCommand() *cobra.Command {
	var f gatewayFlags
	c := &cobra.Command{
		Use:   "gateway --upstream URL",
		Short: "Stand before a service and make its requests safe to repeat",
		Long: "gateway passes requests on to a service. POST and PATCH that carry an Idempotency-Key are sent to it\n" +
			"at most once; every repeat gets the first answer. When nobody knows whether a request took effect, it is\n" +
			"not run again (409 outcome-unknown) unless --on-doubt reexecute says that it may.\n\n" +
			"RETRYSAFE_SECRET in the environment keys the digests of credentials: set it, the same on all gateways of one store.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o, policy, err := f.options(c.Flags().Changed)
			if err != nil {
				return &usageError{err}
			}
			if err := f.addresses(); err != nil {
				return &usageError{err}
			}
			if f.check {
				fmt.Fprintf(c.OutOrStdout(), "retrysafe gateway: the configuration is good: %d routes\n", len(o.Routes))
				return nil
			}
			return runGateway(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), &f, o, policy)
		},
	}
	c.Flags().StringVar(&f.config, "config", "", "configuration file in YAML; docs/gateway.md has its options")
	c.Flags().BoolVar(&f.check, "check-config", false, "say whether the configuration is good, and end")
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1:8080", "address to listen on")
	c.Flags().StringSliceVar(&f.upstream, "upstream", nil, "address of the service, for example http://127.0.0.1:9000; may be given several times")
	c.Flags().StringVar(&f.store, "store", "sqlite:retrysafe.db", "where records are kept: memory: or sqlite:PATH")
	c.Flags().StringVar(&f.admin, "admin", "", "address for operators (/healthz); none by default")
	c.Flags().DurationVar(&f.lease, "lease", 30*time.Second, "how long a request is believed to run without a sign of life")
	c.Flags().DurationVar(&f.retention, "retention", 24*time.Hour, "how long an answer is kept")
	c.Flags().StringVar(&f.inProgress, "in-progress", "reject", `what a repeat meets while the first runs: reject, or "wait 5s"`)
	c.Flags().StringVar(&f.onDoubt, "on-doubt", "refuse", "what becomes of a request that may have taken effect: refuse or reexecute")
	return c
}

// options are those of the file, with the addresses that flags give above it, or without a file those of the flags. changed tells
// which flags were given.
func (f *gatewayFlags) options(changed func(string) bool) (*gateway.Options, retrysafe.Policy, error) {
	if f.config == "" {
		return f.plain()
	}
	for _, name := range []string{"lease", "retention", "in-progress", "on-doubt"} {
		if changed(name) {
			return nil, retrysafe.Policy{}, fmt.Errorf("--%s beside --config: say it in the file, under defaults", name)
		}
	}
	c, err := gateway.LoadConfig(f.config)
	if err != nil {
		return nil, retrysafe.Policy{}, err
	}
	if changed("upstream") {
		c.Upstream = f.upstream
	}
	f.upstream = c.Upstream
	for name, v := range map[string]struct{ flag, file *string }{
		"listen": {&f.listen, &c.Listen}, "admin": {&f.admin, &c.Admin}, "store": {&f.store, &c.Store},
	} {
		if changed(name) {
			*v.file = *v.flag
		} else {
			*v.flag = *v.file
		}
	}
	return c.Options()
}

// addresses checks what can be checked before anything is opened.
func (f *gatewayFlags) addresses() error {
	if _, err := parseStore(f.store); err != nil {
		return err
	}
	for name, addr := range map[string]string{"listen": f.listen, "admin": f.admin} {
		if _, _, err := net.SplitHostPort(addr); err != nil && addr != "" {
			return fmt.Errorf("--%s %q: write it like 127.0.0.1:8080; choose another --%s", name, addr, name)
		}
	}
	return nil
}

func (f *gatewayFlags) plain() (*gateway.Options, retrysafe.Policy, error) {
	p, err := f.policy()
	o := &gateway.Options{Upstreams: f.upstream, Guard: httpidem.Options{Policy: p}}
	return o, p, errors.Join(err, o.Validate(p))
}

func (f *gatewayFlags) policy() (retrysafe.Policy, error) {
	p := retrysafe.Policy{Lease: f.lease, Retention: f.retention}
	var err error
	if p.Wait, err = gateway.ParsePatience(f.inProgress); err != nil {
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

// runGateway serves until ctx ends, and then lets what runs come to its end.
func runGateway(ctx context.Context, out, errOut io.Writer, f *gatewayFlags, o *gateway.Options, policy retrysafe.Policy) error {
	log := logger(errOut)
	secret := []byte(os.Getenv("RETRYSAFE_SECRET"))
	opts := &retrysafe.Options{Policy: policy, Secret: secret, Logger: log}
	if err := opts.Validate(); err != nil {
		return &usageError{fmt.Errorf("RETRYSAFE_SECRET: %w", err)}
	}
	o.Logger = log
	listener, err := listen("--listen", f.listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	var adminListener net.Listener
	if f.admin != "" {
		if adminListener, err = listen("--admin", f.admin); err != nil {
			return err
		}
		defer adminListener.Close()
	}
	store, closeStore, err := openStore(ctx, f.store, log, toServe)
	if err != nil {
		return err
	}
	engine := retrysafe.New(store, opts)
	g, err := gateway.New(engine, o)
	if err != nil {
		return errors.Join(err, closeStore())
	}
	defer g.Close()

	front, admin := server(g, log), server(gateway.Admin(), log)
	failed := make(chan error, 2)
	if adminListener != nil {
		go func() { failed <- admin.Serve(adminListener) }()
		fmt.Fprintf(out, "retrysafe gateway: admin on http://%s\n", adminListener.Addr())
	}
	go func() { failed <- front.Serve(listener) }()
	fmt.Fprintf(out, "retrysafe gateway: http://%s -> %s, records in %s\n", listener.Addr(), strings.Join(f.upstream, ", "), f.store)

	select {
	case err = <-failed:
	case <-ctx.Done():
		log.Info("stopping: no new requests, those that run come to their end")
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace(o))
	defer cancel()
	return errors.Join(err, front.Shutdown(end), engine.Shutdown(end), admin.Close(), closeStore())
}

// grace is as long as a request may wait for its answer, and a little more.
func grace(o *gateway.Options) time.Duration {
	longest := max(o.TimeoutAnswer, time.Minute)
	for _, r := range o.Routes {
		longest = max(longest, r.TimeoutAnswer)
	}
	return longest + 5*time.Second
}

// listen opens an address; flag is where it comes from.
func listen(flag, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err == nil {
		return l, nil
	}
	err = fmt.Errorf("gateway: cannot listen on %s: %w; choose another %s", addr, err, flag)
	var badAddr *net.AddrError
	var badHost *net.DNSError
	if errors.As(err, &badAddr) || errors.As(err, &badHost) {
		return nil, &usageError{err}
	}
	return nil, err
}

func logger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

func server(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}
