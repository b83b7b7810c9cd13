package locks_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/adapters/zklock"
	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
)

// TestWorkersOnAServersClock: a claim uses the server's clock, which is half a minute ahead here.
func TestWorkersOnAServersClock(t *testing.T) {
	t.Parallel()
	s := servers.StartZooKeeper(t, "LD_PRELOAD="+servers.ShiftClock(t), "CLOCK_SHIFT=30")
	b, err := zklock.Open(t.Context(), []string{s.Addr}, &zklock.Options{Logger: slog.New(slog.DiscardHandler)})
	assert.NoError(t, err, "Open")
	t.Cleanup(func() { _ = b.Close() })
	_, err = zklock.NewWorkers(b, nil).Claim(t.Context())
	assert.ErrorIs(t, err, idgen.ErrClockOff, "Claim by our clock")
	held, err := zklock.NewWorkers(b, &idgen.WorkersOptions{Now: func() time.Time { return time.Now().Add(30 * time.Second) }}).Claim(t.Context())
	assert.NoError(t, err, "Claim by the server's")
	assert.NoError(t, held.Release(t.Context()), "Release")
}
