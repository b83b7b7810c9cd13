package redisstore

import (
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
)

// TestUnfinishedSlots: the index of a record is in the record's slot. The names never change, since
// servers have them.
func TestUnfinishedSlots(t *testing.T) {
	t.Parallel()
	u := &unfinishedIndex{name: "rs:unfinished", perSlot: true}
	all := u.allIndexes()
	assert.Equal(t, len(all), redisclient.Slots, "indexes")
	for slot, name := range all {
		assert.Equal(t, redisclient.Slot(name), slot, "slot of %s", name)
	}
	record := "rs:app/fn/tenant/charge/1"
	assert.Equal(t, redisclient.Slot(u.indexOf(record)), redisclient.Slot(record), "slot of a record's index")
	for slot, want := range map[int]string{0: "rs:unfinished:{cmkb}", 1: "rs:unfinished:{emj}", 16383: "rs:unfinished:{qbi}"} {
		assert.Equal(t, all[slot], want, "index of slot %d", slot)
	}
}
