package sqlstore

import "sync"

// running are the keys whose transactions are under way in this process. Nobody else can see them:
// they are not committed.
type running struct {
	mu   sync.Mutex
	keys map[recordID]chan struct{} // closed when the transaction has ended
}

// other is the end of the transaction that runs for id, or nil.
func (r *running) other(id recordID) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys[id]
}

// begin enters a transaction for id, unless one runs.
func (r *running) begin(id recordID) (end func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys[id] != nil {
		return nil, false
	}
	done := make(chan struct{})
	r.keys[id] = done
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.keys, id)
		close(done)
	}, true
}
