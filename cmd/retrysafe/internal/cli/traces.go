package cli

import (
	"context"
	"os"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/storeapi"
)

// traces returns the trace of the engine: that of the metrics for Prometheus, and that of
// OpenTelemetry if the environment asks for it.
func (x *running) traces(ctx context.Context) (*retrysafe.Trace, error) {
	if drivers.OpenTelemetry == nil {
		if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" {
			x.log.Warn("this program was built without OpenTelemetry: nothing is exported; use the command retrysafe")
		}
		return x.mon.Trace(), nil
	}
	tel, err := drivers.OpenTelemetry(ctx, x.log)
	switch {
	case err != nil:
		return nil, &usageError{err}
	case tel == nil:
		return x.mon.Trace(), nil
	}
	x.tel = tel
	x.closeLater(func() error { return tel.Shutdown(ctx) })
	return retrysafe.JoinTraces(x.mon.Trace(), tel.Trace()), nil
}

// watchDoubts adds the metrics of records in doubt, if the store can list them.
func (x *running) watchDoubts(s storeapi.Store) error {
	x.mon.WatchInDoubt(s)
	if _, lists := s.(storeapi.Lister); !lists || x.tel == nil || !x.tel.ExportsMetrics() {
		return nil
	}
	_, err := x.tel.WatchInDoubt(s)
	return err
}
