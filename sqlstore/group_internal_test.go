package sqlstore

import (
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestBatchLimits: a transaction has one change of a key, at most 128 changes and 4 MiB, and at least one; the rest keeps its order.
func TestBatchLimits(t *testing.T) {
	t.Parallel()
	inFlight := make(map[recordID]struct{})
	q := queue{}
	add := func(id byte, size int) { q.waiting = append(q.waiting, &change{id: recordID{id}, size: size}) }
	add(1, mostBytes+1)
	add(2, 1)
	add(1, 1)
	add(3, mostBytes)
	ids := func() (ids []byte) {
		for _, c := range q.take(inFlight) {
			ids = append(ids, c.id[0])
		}
		return ids
	}
	assert.Equal(t, string(ids()), "\x01", "the first batch: a change that is too large is made by itself")
	assert.Equal(t, string(ids()), "\x02", "the second: without the key that is under way, and with what fits")
	clear(inFlight)
	assert.Equal(t, string(ids()), "\x01", "the third: in the order in which they came")
	clear(inFlight)
	assert.Equal(t, string(ids()), "\x03", "the fourth")
	assert.Equal(t, len(q.waiting), 0, "what is left")
	clear(inFlight)
	for i := range 2 * mostTogether {
		q.waiting = append(q.waiting, &change{id: recordID{byte(i), byte(i >> 8)}})
	}
	assert.Equal(t, len(q.take(inFlight)), mostTogether, "a batch of many")
	assert.Equal(t, len(q.waiting), mostTogether, "what is left of many")
}
