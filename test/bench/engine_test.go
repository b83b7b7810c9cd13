package bench_test

import (
	"context"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

var answer = []byte(`{"id":"o-1","status":"paid"}`)

func answerWork(context.Context) ([]byte, error) { return answer, nil }

func newEngine(tb testing.TB) *retrysafe.Engine {
	tb.Helper()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Codec: retrysafe.Raw, Sweep: -1, Secret: []byte("a secret of tests")})
	tb.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	return e
}

// makeKeys makes n keys before the timer starts.
func makeKeys(n int) []retrysafe.Key {
	all := make([]retrysafe.Key, n)
	for i := range all {
		all[i] = retrysafe.Key{Tenant: "ann", Operation: "charge", ID: "k-" + strconv.Itoa(i)}
	}
	return all
}

func replayCall(tb testing.TB) func() {
	tb.Helper()
	e, ctx, k := newEngine(tb), context.Background(), makeKeys(1)[0]
	return func() {
		if _, err := retrysafe.Do(ctx, e, k, answerWork); err != nil {
			tb.Fatal(err)
		}
	}
}

func firstRun(tb testing.TB, n int) func() {
	tb.Helper()
	e, ctx, all, i := newEngine(tb), context.Background(), makeKeys(n), 0
	return func() {
		if _, err := retrysafe.Do(ctx, e, all[i], answerWork); err != nil {
			tb.Fatal(err)
		}
		i++
	}
}

// TestEngineAllocations checks the goals: a replay costs one allocation (the copy of the answer), a
// first run six.
func TestEngineAllocations(t *testing.T) {
	call := replayCall(t)
	call()
	if got := testing.AllocsPerRun(1000, call); got > 1 {
		t.Errorf("replay: %v allocations, at most 1", got)
	}
	if got := testing.AllocsPerRun(1000, firstRun(t, 1001)); got > 6 {
		t.Errorf("acquire and complete: %v allocations, at most 6", got)
	}
}

func BenchmarkEngineReplay(b *testing.B) {
	call := replayCall(b)
	call()
	b.ReportAllocs()
	for b.Loop() {
		call()
	}
}

func BenchmarkEngineFirstRun(b *testing.B) {
	call := firstRun(b, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		call()
	}
}

type charge struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Amount int64  `json:"amount"`
}

type datedCharge struct {
	charge

	At time.Time `json:"at"`
}

// trusted is the JSON codec without the question whether what it makes of a value is that value.
type trusted struct{ retrysafe.Codec }

func (trusted) Accepts(reflect.Type) error      { return nil }
func (trusted) Exact(reflect.Type, []byte) bool { return true }

// BenchmarkEngineFirstRunValues measures what it costs that the first caller gets what duplicates
// get: "trusted" is the same call without it.
func BenchmarkEngineFirstRunValues(b *testing.B) {
	made := charge{"o-1", "paid", 500}
	for _, codec := range []struct {
		name string
		retrysafe.Codec
	}{{"json", retrysafe.JSON}, {"trusted", trusted{retrysafe.JSON}}} {
		b.Run("struct/"+codec.name, func(b *testing.B) { firstRunOf(b, codec.Codec, made) })
		b.Run("struct with a time/"+codec.name, func(b *testing.B) {
			firstRunOf(b, codec.Codec, datedCharge{made, time.Unix(1, 0)})
		})
	}
}

func firstRunOf[T any](b *testing.B, codec retrysafe.Codec, value T) {
	b.Helper()
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Codec: codec, Sweep: -1, Secret: []byte("a secret of tests")})
	b.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	ctx, all := context.Background(), makeKeys(b.N)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if _, err := retrysafe.Do(ctx, e, all[i], func(context.Context) (T, error) { return value, nil }); err != nil {
			b.Fatal(err)
		}
	}
}
