package retrysafe_test

import (
	"context"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/memstore"
)

func BenchmarkReplay(b *testing.B) {
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Codec: retrysafe.Raw})
	k := retrysafe.Key{Operation: "op", ID: "1"}
	ctx := context.Background()
	fn := func(context.Context) ([]byte, error) { return []byte("hello"), nil }
	b.ReportAllocs()
	for b.Loop() {
		if _, err := retrysafe.Do(ctx, e, k, fn); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Codec: retrysafe.Raw, Policy: retrysafe.Policy{Lease: time.Second, Retention: time.Second}})
	ctx := context.Background()
	body := []byte("hello")
	fn := func(context.Context) ([]byte, error) { return body, nil }
	ids := make([]string, b.N+1000000)
	for i := range ids {
		ids[i] = string(rune(i+65)) + "x"
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		k := retrysafe.Key{Operation: "op", ID: ids[i%len(ids)]}
		if _, err := retrysafe.Do(ctx, e, k, fn); err != nil {
			b.Fatal(err)
		}
	}
}
