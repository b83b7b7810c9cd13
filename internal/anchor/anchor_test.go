package anchor_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/internal/anchor"
	"github.com/retrysafe/retrysafe/internal/assert"
)

func TestOfPage(t *testing.T) {
	t.Parallel()
	got := anchor.OfPage("# A `b_c`, d\n\n```text\n# no\n```\n\n## A `b_c`, d\n\n## [Links](x.md) & more\n\n## 用 Redis 保存\n")
	assert.Equal(t, got, []string{"a-b_c-d", "a-b_c-d-1", "links--more", "用-redis-保存"}, "anchors")
}
