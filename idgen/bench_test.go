package idgen_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/idgen/memranges"
)

func benchGenerator(b *testing.B, layout idgen.Layout) *idgen.Snowflake {
	b.Helper()
	g, err := idgen.NewSnowflake(idgen.Static(1), &idgen.Options{Layout: layout})
	if err != nil {
		b.Fatal(err)
	}
	return g
}

func BenchmarkSnowflake(b *testing.B) {
	g := benchGenerator(b, idgen.Fast())
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := g.Next(b.Context()); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkBuffered(b *testing.B) {
	g := idgen.NewBuffered(benchGenerator(b, idgen.Fast()))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := g.Next(b.Context()); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkUUIDv7(b *testing.B) {
	for b.Loop() {
		idgen.UUIDv7()
	}
}

func BenchmarkSegment(b *testing.B) {
	r := memranges.New()
	_, _ = r.Create(b.Context(), "order", 1, 100_000)
	s, err := idgen.NewSegment(r, "order", nil)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Next(b.Context()); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
