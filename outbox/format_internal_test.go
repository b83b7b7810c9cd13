package outbox

import (
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestSchemaIsFrozen: tables of this version exist. A change needs another version.
func TestSchemaIsFrozen(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"sqlite_v1":   "bd6e73f662d146ab6957a5a13b89d78df36597136456ea130bec51d915b85d28",
		"postgres_v1": "e61b3aa8b63acee61e2d71a9eac0cf963025c3a3bbd985fbb49546aa1f96ea65",
		"mysql_v1":    "249315ff85e4e9c27a266b68f9eca271e8ea1a9c50a4b1c40c01c0159a4cd438",
	} {
		assert.Digest(t, "schema/"+name+".sql", want)
	}
}

// TestPlaceIsFrozen: rows of one key that two builds have added are in one partition, and in order.
func TestPlaceIsFrozen(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]Message{
		"4047b08fc99e06929644824e45796567 25": {ID: "m-1", Key: "order/é"},
		"a26c79494fd8fe8e3044ff8eeb5304cb 14": {ID: "m-1"},
	} {
		hash, part := m.keyHash()
		assert.Equal(t, fmt.Sprintf("%x %d", hash, part), want, "hash and partition of %+v", m)
	}
}
