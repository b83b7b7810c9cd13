package filter_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bits-and-blooms/bloom/v3"

	"github.com/retrysafe/retrysafe/filter"
)

const manyIDs = 100_000_000

// put returns the id of n without an allocation.
func put(b *[16]byte, n uint64) []byte {
	binary.LittleEndian.PutUint64(b[:8], n*0x9E3779B97F4A7C15)
	binary.LittleEndian.PutUint64(b[8:], n)
	return b[:]
}

// full is a filter with manyIDs ids. It is made once, since that takes a minute.
var full = sync.OnceValue(func() *filter.Bloom {
	b, err := filter.NewBloom(&filter.Options{Empty: true, Items: manyIDs})
	if err != nil {
		panic(err)
	}
	var all sync.WaitGroup
	for part := range uint64(2) {
		all.Go(func() {
			var buf [16]byte
			for i := part; i < manyIDs; i += 2 {
				b.Add(put(&buf, i))
			}
		})
	}
	all.Wait()
	return b
})

// BenchmarkBloom queries a filter of 100 million ids. maybe is the share of ids that get "maybe";
// bits is the memory of one id.
func BenchmarkBloom(b *testing.B) {
	ids := map[string]func(r *rand.Rand) uint64{
		"new":  func(r *rand.Rand) uint64 { return manyIDs + r.Uint64()>>16 },
		"seen": func(r *rand.Rand) uint64 { return r.Uint64N(manyIDs) },
	}
	for _, kind := range []string{"new", "seen"} {
		for _, goroutines := range []int{1, 8} {
			b.Run(fmt.Sprintf("MaybeSeen/%s/%d", kind, goroutines), func(b *testing.B) {
				f := full()
				var maybe atomic.Int64
				var all sync.WaitGroup
				b.ResetTimer()
				for g := range goroutines {
					all.Go(func() {
						var buf [16]byte
						r, n := rand.New(rand.NewPCG(uint64(g), 1)), int64(0)
						for range b.N / goroutines {
							if f.MaybeSeen(put(&buf, ids[kind](r))) {
								n++
							}
						}
						maybe.Add(n)
					})
				}
				all.Wait()
				b.ReportMetric(float64(maybe.Load())/float64(b.N), "maybe")
				b.ReportMetric(float64(f.Stats().Bytes)*8/manyIDs, "bits/id")
			})
		}
	}
	b.Run("MaybeSeenBatch/new/1", func(b *testing.B) {
		f, r := full(), rand.New(rand.NewPCG(9, 9))
		batch, ids := make([][16]byte, 256), make([][]byte, 256)
		b.ResetTimer()
		for range b.N/len(ids) + 1 {
			for i := range ids {
				ids[i] = put(&batch[i], manyIDs+r.Uint64()>>16)
			}
			f.MaybeSeenBatch(ids)
		}
	})
	// Last, since it adds what it asks for.
	b.Run("Add/seen/1", func(b *testing.B) {
		f, r, buf := full(), rand.New(rand.NewPCG(7, 7)), new([16]byte)
		for b.Loop() {
			f.Add(put(buf, r.Uint64N(manyIDs)))
		}
	})
	b.Run("Add/new/1", func(b *testing.B) {
		f, r, buf := full(), rand.New(rand.NewPCG(8, 8)), new([16]byte)
		for b.Loop() {
			f.Add(put(buf, manyIDs+r.Uint64()>>16))
		}
	})
}

// BenchmarkBloomSmall queries a filter of 100 000 ids, which fits into the caches. So it measures
// only the processor's work.
func BenchmarkBloomSmall(b *testing.B) {
	const n = 100_000
	f := newBloom(b, filter.Options{Empty: true, Items: n})
	for i := range uint64(n) {
		f.Add(id(i))
	}
	for kind, from := range map[string]uint64{"new": n, "seen": 0} {
		b.Run(kind, func(b *testing.B) {
			b.ReportAllocs()
			i, buf := uint64(0), new([16]byte)
			for b.Loop() {
				f.MaybeSeen(put(buf, from+i%n))
				i++
			}
		})
	}
}

// BenchmarkHyperLogLogCurve reports the share of new ids that are recognised after a number of ids.
func BenchmarkHyperLogLogCurve(b *testing.B) {
	for _, precision := range []int{14, 18} {
		b.Run(fmt.Sprint("precision ", precision), func(b *testing.B) {
			for range b.N {
				h, err := filter.NewHyperLogLog(&filter.Options{Empty: true, Precision: precision})
				if err != nil {
					b.Fatal(err)
				}
				next := 10_000
				for i := range uint64(manyIDs + 1) {
					if int(i) == next {
						recognised := 0
						for k := range uint64(1_000_000) {
							if !h.MaybeSeen(id(1<<40 + k)) {
								recognised++
							}
						}
						s := h.Stats()
						b.Logf("after %d ids: %.4f %% of new ones are recognised (%.4f %% by the registers); %.4f %% of all so far",
							next, float64(recognised)/1e4, 100*(1-s.FalsePositive), 100*float64(s.SurelyNew)/float64(s.Added))
						next *= 10
					}
					h.Add(id(i))
				}
			}
		})
	}
}

// BenchmarkBloomRival queries a filter of a known library, under a lock, with as many ids and the
// same share of false positives as BenchmarkBloom, and ours in turn.
func BenchmarkBloomRival(b *testing.B) {
	rival, mu := rivalBloom(), new(sync.Mutex)
	ways := map[string]func(id []byte) bool{
		"ours": full().MaybeSeen,
		"rival": func(id []byte) bool {
			mu.Lock()
			defer mu.Unlock()
			return rival.Test(id)
		},
	}
	for _, goroutines := range []int{1, 8} {
		b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			for name, maybe := range ways {
				begun := time.Now()
				var all sync.WaitGroup
				for g := range goroutines {
					all.Go(func() {
						var buf [16]byte
						r := rand.New(rand.NewPCG(uint64(g), 1))
						for range b.N / goroutines {
							maybe(put(&buf, manyIDs+r.Uint64()>>16))
						}
					})
				}
				all.Wait()
				b.ReportMetric(float64(time.Since(begun).Nanoseconds())/float64(b.N), name+"-ns")
			}
		})
	}
}

var rivalBloom = sync.OnceValue(func() *bloom.BloomFilter {
	f, buf := bloom.NewWithEstimates(manyIDs, 0.01), new([16]byte)
	for i := range uint64(manyIDs) {
		f.Add(put(buf, i))
	}
	return f
})
