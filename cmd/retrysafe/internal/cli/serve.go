package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/stores/sealstore"
)

// liveGateway is a gateway that runs.
type liveGateway struct {
	flags        *gatewayFlags
	log          *slog.Logger
	out          io.Writer
	engine       *retrysafe.Engine // with the default policy; each configuration has its own view
	monitor      *gateway.Monitor
	live         *gateway.Live
	adminHandler *adminHandler
	telemetry    Telemetry // nil: nothing is exported
	access       *accessLog
	tls          gateway.Certificates
	sealed       *sealstore.Store // nil: the store keeps answers in the clear

	listener, admin net.Listener   // admin is nil if there is none
	closers         []func() error // closed at the end, the last one first
}

// runGateway serves until ctx ends, and then waits for requests in flight.
func runGateway(ctx context.Context, out, errOut io.Writer, f *gatewayFlags, s *gatewayConfig) error {
	// Before the gateway reports that it listens: without a handler the signal ends the process.
	hup := make(chan os.Signal, 1)
	if reloadSignal != nil {
		signal.Notify(hup, reloadSignal)
		defer signal.Stop(hup)
	}
	if os.Getenv("GOGC") == "" {
		// The live heap is small: a few megabytes more save an eighth of the CPU time.
		debug.SetGCPercent(400)
	}
	x := &liveGateway{flags: f, log: newLogger(errOut), out: out}
	err := x.openAll(ctx, s)
	if err == nil {
		err = x.serveUntilDone(ctx, hup, s)
	}
	return errors.Join(err, x.closeAll())
}

// openAll makes everything that the gateway needs, and nothing that is visible from outside.
func (x *liveGateway) openAll(ctx context.Context, s *gatewayConfig) error {
	x.monitor = gateway.NewMonitor(&gateway.MonitorOptions{Logger: x.log})
	traces, err := x.newTrace(ctx)
	if err != nil {
		return err
	}
	opts, err := s.engineOptions()
	if err != nil {
		return err
	}
	opts.Logger, opts.Trace = x.log, traces
	x.flags.warnTwoStores(s, x.log)
	s.logFileWarnings(x.log)
	if x.listener, err = listenOn("--listen", s.Listen); err != nil {
		return err
	}
	x.closeLater(func() error { _ = x.listener.Close(); return nil }) // usually already closed
	if s.Admin != "" {
		if x.admin, err = listenOn("--admin", s.Admin); err != nil {
			return err
		}
		x.closeLater(func() error { _ = x.admin.Close(); return nil })
	}
	if x.access, err = openAccessLog(s.AccessLog, x.out); err != nil {
		return err
	}
	x.closeLater(func() error { _ = x.access.Close(); return nil }) // each line was written at once
	store, closeStore, err := openStore(ctx, s.Store, x.log, toServe, s.settings)
	if err != nil {
		return err
	}
	x.closeLater(closeStore)
	if s.ring != nil {
		if x.sealed, err = s.sealStore(store, x.log); err != nil {
			return err
		}
		store = x.sealed
	}
	if err := x.watchStore(store, s.Namespace); err != nil {
		return err
	}
	x.engine = retrysafe.New(store, opts)
	_ = x.engine.Digest(nil) // warns of a missing secret now, not at the first request
	g, err := x.newGateway(s)
	if err != nil {
		return err
	}
	if err := x.requireSameSecret(ctx, g); err != nil {
		return errors.Join(err, g.Close())
	}
	x.live = gateway.NewLive(g)
	x.monitor.WatchUpstreams(x.live)
	if x.adminHandler, err = newAdminHandler(x, store, s); err != nil {
		return err
	}
	cert, clients, err := s.readCertificates()
	x.tls.Set(cert, clients)
	files, filesErr := s.certificateFiles()
	x.monitor.SetCertificateFiles(files)
	return errors.Join(err, filesErr)
}

func (x *liveGateway) closeLater(f func() error) { x.closers = append(x.closers, f) }

func (x *liveGateway) closeAll() error {
	var errs []error
	for _, f := range slices.Backward(x.closers) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// serveUntilDone serves until ctx ends or a server fails, and then waits for requests in flight.
func (x *liveGateway) serveUntilDone(ctx context.Context, hup <-chan os.Signal, s *gatewayConfig) error {
	server := s.server
	server.Logger = x.log
	httpServer := gateway.NewServer(x.live, &server)
	x.monitor.WatchServer(httpServer)
	admin := gateway.NewServer(x.adminHandler, &gateway.ServerOptions{Logger: x.log})
	failed := make(chan error, 2)
	if x.admin != nil {
		go x.adminHandler.traffic.Run(ctx)
		go func() { failed <- admin.Serve(x.admin) }()
		fmt.Fprintf(x.out, "retrysafe gateway: admin on http://%s\n", x.admin.Addr())
	}
	scheme := "http"
	if x.tls.Config() != nil {
		scheme = "https"
	}
	go func() { failed <- x.serveListener(httpServer) }()
	shown, _ := parseStore(s.Store) // its name may have a password
	fmt.Fprintf(x.out, "retrysafe gateway: %s://%s -> %s, records in %s, version %s\n", scheme, x.listener.Addr(), strings.Join(s.Upstream, ", "), shown, buildVersion())

	err := x.waitForEnd(ctx, failed, hup)
	x.live.Drain()
	if err == nil {
		time.Sleep(x.flags.current.delay) // clients of /readyz notice it
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.flags.current.gracePeriod())
	defer cancel()
	err = errors.Join(err, httpServer.Shutdown(end), x.engine.Shutdown(end))
	return errors.Join(err, x.live.Close(), admin.Close())
}

// waitForEnd waits for the end, and reloads on a signal.
func (x *liveGateway) waitForEnd(ctx context.Context, failed <-chan error, hup <-chan os.Signal) error {
	for {
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
			x.log.Info("stopping: no new requests, those that run come to their end")
			return nil
		case <-hup:
			if err := x.reloadConfig(); err != nil {
				x.log.Error("not reloaded; the configuration stays as it was", "error", err.Error())
			}
		}
	}
}

// reloadConfig reads the configuration again. A configuration with an error changes nothing.
func (x *liveGateway) reloadConfig() error {
	s, err := x.flags.readConfig()
	if err != nil {
		return err
	}
	if err := x.flags.current.requireReloadable(s); err != nil {
		return err
	}
	g, err := x.newGateway(s)
	if err != nil {
		return err
	}
	if err := x.requireSameSecret(context.Background(), g); err != nil {
		return errors.Join(err, g.Close())
	}
	cert, clients, err := s.readCertificates()
	files, filesErr := s.certificateFiles()
	console, consoleErr := x.adminHandler.newConsole(s)
	if err := errors.Join(err, filesErr, consoleErr, x.access.reopen()); err != nil {
		_ = g.Close()
		return err
	}
	x.adminHandler.current.Store(&console)
	x.tls.Set(cert, clients)
	x.monitor.SetCertificateFiles(files)
	if x.sealed != nil {
		x.sealed.SetRing(s.ring)
	}
	x.live.Replace(g)
	x.flags.current = s
	s.logFileWarnings(x.log)
	x.log.Info("configuration reloaded", "routes", len(s.gateway.Routes), "upstreams", len(s.Upstream))
	return nil
}

// newGateway makes a gateway of a configuration, on the engine that all share.
func (x *liveGateway) newGateway(s *gatewayConfig) (*gateway.Gateway, error) {
	o := *s.gateway
	o.Logger, o.Monitor, o.AccessLog = x.log, x.monitor, x.access.newLogger()
	if x.telemetry != nil {
		o.Continue, o.Propagate = x.telemetry.Continue, x.telemetry.Propagate
	}
	return gateway.New(x.engine.WithPolicy(s.policy), &o)
}

// requireSameSecret refuses to serve with another secret than the one that the store was used with.
// If the store does not say, the gateway asks again before the first guarded request.
func (x *liveGateway) requireSameSecret(ctx context.Context, g *gateway.Gateway) error {
	err := g.CheckSecret(ctx)
	switch {
	case errors.Is(err, retrysafe.ErrSecretChanged):
		return &usageError{fmt.Errorf("%w; \"retrysafe secret check\" checks a secret, and changes nothing", err)}
	case errors.Is(err, retrysafe.ErrUnavailable):
		x.log.Warn("the store does not say yet whether the secret is the one that it was used with; until it does, guarded requests are refused", "error", err.Error())
		return nil
	}
	return err
}

func (x *liveGateway) serveListener(s *gateway.Server) error {
	if c := x.tls.Config(); c != nil {
		return s.ServeTLS(x.listener, c)
	}
	return s.Serve(x.listener)
}

// listenOn opens an address; flag is the flag that gave it, for errors.
func listenOn(flag, addr string) (net.Listener, error) {
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

func newLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// gracePeriod is the grace period for requests in flight: slightly longer than a request may wait
// for its answer.
func (s *gatewayConfig) gracePeriod() time.Duration {
	if s.drain > 0 {
		return s.drain
	}
	longest := max(s.gateway.TimeoutAnswer, time.Minute)
	for _, r := range s.gateway.Routes {
		longest = max(longest, r.TimeoutAnswer)
	}
	return longest + 5*time.Second
}
