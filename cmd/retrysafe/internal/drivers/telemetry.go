package drivers

import (
	"context"
	"log/slog"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/telemetry"
)

func openTelemetry(ctx context.Context, log *slog.Logger) (cli.Telemetry, error) {
	t, err := telemetry.FromEnvironment(ctx, log)
	if t == nil {
		return nil, err
	}
	return t, err
}
