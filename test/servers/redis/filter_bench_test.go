package redis_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/filter"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
)

// BenchmarkRedisFilter adds new ids to the filters on Redis, one by one and in batches of 1000. The
// time is for one id.
func BenchmarkRedisFilter(b *testing.B) {
	c := servers.RueidisTo(b, servers.StartRedis(b).Addr)
	bloom, err := filter.NewRedisBloom(c, "orders", &filter.Options{Items: 10_000_000})
	assert.NoError(b, err, "a filter")
	hll, err := filter.NewRedisHyperLogLog(c, "orders hll", nil)
	assert.NoError(b, err, "a sketch")
	assert.NoError(b, bloom.MarkWhole(b.Context()), "mark")
	assert.NoError(b, hll.MarkWhole(b.Context()), "mark")
	next := 0
	for name, f := range map[string]filter.Prefilter{"bloom": bloom, "hyperloglog": hll} {
		for _, size := range []int{1, 1000} {
			b.Run(name+map[int]string{1: "/one", 1000: "/batch"}[size], func(b *testing.B) {
				for i := 0; i < b.N; i += size {
					ids := filterIDs(next, next+size)
					next += size
					_, err := f.AddBatch(b.Context(), ids)
					assert.NoError(b, err, "add")
				}
			})
		}
	}
}
