package sql_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// BenchmarkGrowth compares a table with as many completed records as the benchmark's number with an
// empty table of the same database, in turn, at 64 callers: new keys, replays, and new keys while a
// sweep removes a hundredth of the records. The page is the first one of the records in doubt,
// among a thousand unfinished ones.
func BenchmarkGrowth(b *testing.B) {
	eachDatabase(b, func(b *testing.B, m *manyRecords) {
		b.Helper()
		if b.N == 1 {
			return // the trial run of the package testing
		}
		b.ReportMetric(0, "ns/op")
		m.fillTable(b)
		measureGrowth(b, m)
	})
}

func measureGrowth(b *testing.B, m *manyRecords) {
	b.Helper()
	const rounds, keys = 5, 20_000
	measured := map[string][]float64{}
	keep := func(v float64, name string) { measured[name] = append(measured[name], v) }
	empty := m.openStore(b, "empty_records")
	swept := max(10, b.N/100/rounds)
	for round := range rounds {
		for _, when := range [][]string{{"empty", "full"}, {"full", "empty"}}[round%2] {
			g := &grouped{store: map[string]*sqlstore.Store{"empty": empty, "full": m.store}[when], space: fmt.Sprint(when, round)}
			keep(g.measureRate(b, keys, g.complete), when+"-keys/s")
			keep(g.measureRate(b, keys, g.replay), when+"-replays/s")
		}
		m.expireSome(b, round*swept, (round+1)*swept)
		g := &grouped{store: m.store, space: fmt.Sprint("sweep", round)}
		var sweep sync.WaitGroup
		sweep.Go(func() { m.sweepSome(b, swept) })
		keep(g.measureRate(b, keys, g.complete), "sweep-keys/s")
		sweep.Wait()
	}
	doubts := &grouped{store: m.store, space: "doubts"}
	doubts.measureRate(b, 1000, func(ctx context.Context, i int) error {
		got, err := doubts.acquire(ctx, i)
		if err != nil || i%2 == 0 {
			return err
		}
		return m.store.Release(ctx, storeapi.ReleaseRequest{Key: got.Record.Key, Fence: got.Record.Fence, Owner: got.Record.Owner, InDoubt: true})
	})
	keep(medianTime(b, 21, func(int) error {
		page, err := m.store.List(b.Context(), storeapi.ListRequest{InDoubt: true, Limit: 100})
		if err == nil && len(page.Records) != 100 {
			err = fmt.Errorf("a page of %d", len(page.Records))
		}
		return err
	})/1000, "ms-page")
	for name, all := range measured {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], name)
	}
}
