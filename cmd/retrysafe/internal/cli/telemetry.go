package cli

import (
	"context"
	"os"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// newTrace returns the trace of the engine: that of the metrics for Prometheus, and that of
// OpenTelemetry if the environment asks for it.
func (x *liveGateway) newTrace(ctx context.Context) (*retrysafe.Trace, error) {
	if drivers.OpenTelemetry == nil {
		if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" {
			x.log.Warn("this program was built without OpenTelemetry: nothing is exported; use the command retrysafe")
		}
		return x.monitor.Trace(), nil
	}
	tel, err := drivers.OpenTelemetry(ctx, x.log)
	switch {
	case err != nil:
		return nil, &usageError{err}
	case tel == nil:
		return x.monitor.Trace(), nil
	}
	x.telemetry = tel
	x.closeLater(func() error { return tel.Shutdown(ctx) })
	return retrysafe.JoinTraces(x.monitor.Trace(), tel.Trace()), nil
}

// watchStore adds the metrics of the store, and those of records in doubt if it can list them.
func (x *liveGateway) watchStore(s storeapi.Store, namespace string) error {
	x.monitor.WatchStore(s, namespace)
	x.monitor.WatchInDoubt(s)
	if _, lists := s.(storeapi.Lister); !lists || x.telemetry == nil || !x.telemetry.ExportsMetrics() {
		return nil
	}
	_, err := x.telemetry.WatchInDoubt(s)
	return err
}
