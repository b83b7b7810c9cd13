package cli

import (
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/storeapi"
)

// operators serves the address of admin: health and metrics, and the console as it is configured
// now.
type operators struct {
	plain   http.Handler // health and metrics
	store   storeapi.Store
	log     *slog.Logger
	traffic *gateway.Traffic
	mon     *gateway.Monitor
	now     atomic.Pointer[http.Handler]
}

func newOperators(x *running, s storeapi.Store, set *setup) (*operators, error) {
	o := &operators{plain: gateway.Admin(x.live, x.engine, x.mon), store: s, log: x.log, traffic: gateway.NewTraffic(x.mon), mon: x.mon}
	console, err := o.console(set)
	if err != nil {
		return nil, err
	}
	o.now.Store(&console)
	return o, nil
}

// console makes the console of a configuration, or a handler that has nothing.
func (o *operators) console(s *setup) (http.Handler, error) {
	options, keep, err := s.operators()
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
	options.Traffic, options.Logger, options.OnRefused = o.traffic, o.log, o.mon.ConsoleRefused
	return admin.New(records, options)
}

// ServeHTTP implements [http.Handler].
func (o *operators) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/healthz", "/readyz", "/metrics":
		o.plain.ServeHTTP(w, r)
	default:
		(*o.now.Load()).ServeHTTP(w, r)
	}
}
