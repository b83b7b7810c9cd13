package sqlstore

import (
	"bytes"
	"sync"

	"github.com/retrysafe/retrysafe/internal/protocol"
)

// remembered has the records of attempts that this store has claimed, as they were last written.
// The next change of such an attempt, a heartbeat or the end, needs no read: its statement writes
// only if the record is still the same.
type remembered struct {
	mu   sync.Mutex
	rows map[recordID]protocol.Row
}

// mostRemembered bounds the memory, together with the rule that a record with progress is not
// remembered.
const mostRemembered = 4096

// keep remembers a record that was written.
func (m *remembered) keep(id recordID, row *protocol.Row) {
	if row.LeaseEnd == 0 || row.Answer.Body != nil {
		return
	}
	own := *row // callers get the record too
	own.Fingerprint, own.Binding = bytes.Clone(row.Fingerprint), bytes.Clone(row.Binding)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rows == nil {
		m.rows = make(map[recordID]protocol.Row)
	}
	if len(m.rows) >= mostRemembered {
		for other := range m.rows {
			delete(m.rows, other)
			break
		}
	}
	m.rows[id] = own
}

// take returns what is remembered of a record, and forgets it: the call may write.
func (m *remembered) take(id recordID) *protocol.Row {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, ok := m.rows[id]
	if !ok {
		return nil
	}
	delete(m.rows, id)
	return &row
}
