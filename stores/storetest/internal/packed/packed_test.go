package packed_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/stores/storetest"
	"github.com/retrysafe/retrysafe/stores/storetest/internal/packed"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) storetest.Backend {
		clock := storetest.NewClock()
		return storetest.Backend{Store: packed.New(clock.Now), Advance: clock.Advance, Rewind: clock.Rewind}
	}, storetest.Features{Issuer: true, Limiter: true, UsageReader: true, Forgetter: true, Lister: true, Sweeper: true, Batcher: true})
}
