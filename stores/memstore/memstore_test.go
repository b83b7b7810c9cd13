package memstore_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) storetest.Backend {
		clock := storetest.NewClock()
		store := memstore.New(&memstore.Options{Now: clock.Now})
		return storetest.Backend{Store: store, Advance: clock.Advance, Rewind: clock.Rewind}
	}, storetest.Features{Issuer: true, Limiter: true, UsageReader: true, Forgetter: true, Lister: true, Sweeper: true})
}

func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, func(*testing.B) storeapi.Store { return memstore.New(nil) })
}
