package batch

import (
	"encoding/binary"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/sqlstore/internal/table"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

func TestSeenKeys(t *testing.T) {
	t.Parallel()
	id := func(n int) (id table.RecordID) {
		binary.BigEndian.PutUint64(id[:], uint64(n))
		return id
	}
	var k SeenKeys
	for n := range 5 * maxSeen {
		assert.True(t, k.GuessNew(id(n)), "key %d is new", n)
		k.LearnNew(true)
		assert.True(t, !k.GuessNew(id(n)) && !k.GuessNew(id(max(0, n-maxSeen+1))), "key %d is seen, and the latest before it", n)
		assert.True(t, len(k.newer)+len(k.older) <= 2*maxSeen, "it is bounded")
	}
	n := 5 * maxSeen
	guesses := 0
	for range 100 { // of keys from before a restart
		if n++; k.GuessNew(id(n)) {
			guesses++
		}
		k.LearnNew(false)
	}
	assert.True(t, guesses < 10, "%d of 100 duplicates insert first", guesses)
	guesses = 0
	for range 100 {
		if n++; k.GuessNew(id(n)) {
			guesses++
		}
		k.LearnNew(true)
	}
	assert.True(t, guesses > 80, "%d of 100 new keys insert first", guesses)
}

func TestRememberedIsBounded(t *testing.T) {
	t.Parallel()
	var m writtenRows
	row := protocol.Row{State: storeapi.StateInProgress, LeaseEnd: 9, Fingerprint: []byte("print")}
	for n := range 2 * maxWritten {
		m.rememberRow(table.RecordID{byte(n), byte(n >> 8)}, &row)
	}
	assert.Equal(t, len(m.rows), maxWritten, "records")
	last := table.RecordID{0xff, 0x1f}
	got := m.takeRow(last)
	assert.True(t, got != nil && string(got.Fingerprint) == "print", "the latest record is remembered")
	row.Fingerprint[0] = 'x'
	assert.Equal(t, string(got.Fingerprint), "print", "the fingerprint is a copy")
	assert.True(t, m.takeRow(last) == nil, "and forgotten once it was taken")
	row.Answer.Body = []byte("progress")
	m.rememberRow(last, &row)
	assert.True(t, m.takeRow(last) == nil, "a record with progress is not remembered")
}
