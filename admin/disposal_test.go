package admin_test

import (
	"math"
	"testing"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestSelection: an entry of the audit log has the limit that an operator has set, and no other.
func TestSelection(t *testing.T) {
	t.Parallel()
	for want, in := range map[string]admin.Disposal{
		"all, at most 5":         {All: true, Count: 5},
		`all, topic "orders"`:    {All: true, Count: math.MaxInt, Topic: "orders"},
		"3 7":                    {Places: []int64{3, 7}, Count: math.MaxInt},
		"all, consumer \"mail\"": {All: true, Consumer: "mail"},
	} {
		assert.Equal(t, in.Selection(), want, "the selection")
	}
}
