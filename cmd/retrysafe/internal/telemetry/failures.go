package telemetry

import (
	"log/slog"
	"sync"
	"time"
)

// failureLog logs errors of the export: a collector that is away must not fill the log.
type failureLog struct {
	log *slog.Logger

	mu      sync.Mutex
	told    time.Time
	missing int // errors since then that were not logged
}

// Handle implements the handler of errors of OpenTelemetry.
func (f *failureLog) Handle(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.missing++
	if time.Since(f.told) < 10*time.Second {
		return
	}
	f.log.Warn("telemetry could not be exported; requests are served all the same", "error", err.Error(), "times", f.missing)
	f.told, f.missing = time.Now(), 0
}
