package sqlstore

import "sync"

// running has the keys whose transactions run in this process. No other connection can see them,
// since they are not committed.
type running struct {
	mu   sync.Mutex
	keys map[recordID]chan struct{} // closed when the transaction has ended
}

// other returns a channel that is closed when the transaction of id ends, or nil if none runs.
func (r *running) other(id recordID) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys[id]
}

// begin registers a transaction for id, unless one is running.
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
