package filter_test

import (
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/filter"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestTooLargeFilter: a filter that needs more memory than a server has is refused before anything
// is allocated, and the error has the size and the limit.
func TestTooLargeFilter(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]filter.Options{
		"GiB in 64 windows, and at most 64 GiB": {Items: 10_000_000_000, Window: time.Hour, Windows: 64},
		"GiB in 2 windows, and at most 64 GiB":  {Items: 10_000_000_000, FalsePositive: 2e-12, Window: time.Hour},
	} {
		_, err := filter.NewRedisBloom(nil, "orders", &o)
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "on Redis: %v, want %q", err, want)
		_, err = filter.NewBloom(&o)
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "in memory: %v, want %q", err, want)
	}
}
