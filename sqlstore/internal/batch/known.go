package batch

import (
	"bytes"
	"sync"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/sqlstore/internal/table"
)

// seenKeys guesses whether a claim is the first one of its key. A first claim inserts at once. A
// duplicate looks at the record first, which locks nothing. A wrong guess costs one statement.
//
// A key that this store has claimed before is a duplicate's. Any other key is new, unless most of
// the latest claims of such keys were duplicates.
type seenKeys struct {
	mu           sync.Mutex
	newer, older map[table.RecordID]struct{}
	newLately    int // grows with keys that were new, and shrinks with others
}

const (
	// mostSeen is half of how many keys are known at most: about 3 MB.
	mostSeen = 1 << 15
	// mostLately bounds newLately, so that a change of traffic shows soon.
	mostLately = 16
)

// guessNew returns the guess for a claim, and counts the key as seen.
func (k *seenKeys) guessNew(id table.RecordID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, seen := k.newer[id]
	if !seen {
		_, seen = k.older[id]
	}
	if seen {
		return false
	}
	if k.newer == nil || len(k.newer) >= mostSeen {
		k.newer, k.older = make(map[table.RecordID]struct{}), k.newer
	}
	k.newer[id] = struct{}{}
	return k.newLately >= 0
}

// learnNew tells what a claim has found for a key that was not seen before.
func (k *seenKeys) learnNew(isNew bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if isNew {
		k.newLately = min(k.newLately+1, mostLately)
	} else {
		k.newLately = max(k.newLately-2, -mostLately)
	}
}

// writtenRows has the records of attempts that this store has claimed, as they were last written.
// The next change of such an attempt, a heartbeat or the end, needs no read: its statement writes
// only if the record is still the same.
type writtenRows struct {
	mu   sync.Mutex
	rows map[table.RecordID]protocol.Row
}

// mostWritten bounds the memory, together with the rule that a record with progress is not
// remembered.
const mostWritten = 4096

// rememberRow remembers a record that was written.
func (m *writtenRows) rememberRow(id table.RecordID, row *protocol.Row) {
	if row.LeaseEnd == 0 || row.Answer.Body != nil {
		return
	}
	own := *row // callers get the record too
	own.Fingerprint, own.Binding = bytes.Clone(row.Fingerprint), bytes.Clone(row.Binding)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rows == nil {
		m.rows = make(map[table.RecordID]protocol.Row)
	}
	if len(m.rows) >= mostWritten {
		for other := range m.rows {
			delete(m.rows, other)
			break
		}
	}
	m.rows[id] = own
}

// takeRow returns what is remembered of a record, and forgets it: the call may write.
func (m *writtenRows) takeRow(id table.RecordID) *protocol.Row {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, ok := m.rows[id]
	if !ok {
		return nil
	}
	delete(m.rows, id)
	return &row
}
