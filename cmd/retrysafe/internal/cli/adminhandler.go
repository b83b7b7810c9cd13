package cli

import (
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// adminHandler serves the address of admin: health and metrics, and the console as it is configured
// now.
type adminHandler struct {
	health  http.Handler // health and metrics
	store   storeapi.Store
	log     *slog.Logger
	traffic *gateway.Traffic
	monitor *gateway.Monitor
	current atomic.Pointer[http.Handler]
}

func newAdminHandler(x *liveGateway, s storeapi.Store, set *gatewayConfig) (*adminHandler, error) {
	o := &adminHandler{health: gateway.Admin(x.live, x.engine, x.monitor), store: s, log: x.log, traffic: gateway.NewTraffic(x.monitor), monitor: x.monitor}
	console, err := o.newConsole(set)
	if err != nil {
		return nil, err
	}
	o.current.Store(&console)
	return o, nil
}

// newConsole makes the console of a configuration, or a handler that has nothing.
func (o *adminHandler) newConsole(s *gatewayConfig) (http.Handler, error) {
	options, keep, err := s.consoleOptions()
	if err != nil || options == nil {
		return http.NotFoundHandler(), err
	}
	records, err := admin.NewRecords(o.store, &admin.RecordsOptions{Secret: []byte(os.Getenv("RETRYSAFE_SECRET")), Logger: o.log})
	if err != nil {
		return nil, err
	}
	if options.Namespace == "" {
		options.Namespace = "app"
	}
	options.Audit = admin.NewAudit(o.store, options.Namespace, keep)
	options.Traffic, options.Logger, options.OnRefused = o.traffic, o.log, o.monitor.ConsoleRefused
	return admin.New(records, options)
}

// ServeHTTP implements [http.Handler].
func (o *adminHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/healthz", "/readyz", "/metrics":
		o.health.ServeHTTP(w, r)
	default:
		(*o.current.Load()).ServeHTTP(w, r)
	}
}
