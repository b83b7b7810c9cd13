package redislock

import (
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
)

// nowhere is a client without a server.
type nowhere struct{ redisclient.Client }

// TestSlots: the slots are those of Redis Cluster, and the floor of a lock is in the lock's slot,
// whatever braces prefix and name have.
func TestSlots(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]uint16{"123456789": 0x31c3, "foo": 12182, "": 0} {
		// The first value is from the specification, the second from CLUSTER KEYSLOT.
		got := crc16Sum(key)
		if key == "foo" {
			got %= slotCount
		}
		assert.Equal(t, got, want, "%q", key)
	}
	slot := func(key string) uint16 { tag, _ := hashTag(key); return crc16Sum(tag) % slotCount }
	floors := map[string]bool{}
	for _, prefix := range []string{"rs:lock:", "{shop}:", "a}b:", "a{b}c{d:", ""} {
		b := &Backend{o: Options{Prefix: prefix}}
		for i := range 500 {
			for _, name := range []string{fmt.Sprint("order-", i), fmt.Sprintf("{u%d}/cart", i), fmt.Sprintf("x{u%d", i), fmt.Sprintf("}{%d}", i), fmt.Sprintf("a}%d", i)} {
				key := prefix + name
				floor := b.floorKey(key)
				assert.Equal(t, slot(floor), slot(key), "slot of %q, the floor of %q", floor, key)
				if prefix == "rs:lock:" {
					floors[floor] = true
				}
			}
		}
	}
	for _, prefix := range []string{"a{}b:", "a{b:"} {
		_, err := newBackend(nowhere{}, &Options{Prefix: prefix})
		assert.True(t, err != nil, "%q is refused", prefix)
	}
	assert.True(t, len(floors) > 1000, "%d floors of 2500 names", len(floors))
}
