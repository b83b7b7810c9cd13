package retrysafe

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
)

const sweepBatch = 500

// runSweeper removes expired records until the engine ends, or until the store says that it cannot
// do that.
func (rt *runtime) runSweeper(s storeapi.Sweeper) {
	every := rt.life.sweep
	if every == 0 {
		every = time.Minute
	}
	for {
		// Jitter keeps the processes of one store from sweeping all at once.
		if !rt.sleep(every/2 + rand.N(every)) {
			return
		}
		for {
			done := rt.trace.store(rt.ctx, "sweep")
			n, err := s.Sweep(rt.ctx, sweepBatch)
			done.with(err)
			if errors.Is(err, errors.ErrUnsupported) {
				return
			}
			if err != nil || n < sweepBatch {
				break
			}
		}
	}
}
