package mqidem

import "sync"

// orderLanes handle the messages of one name one after the other.
type orderLanes struct {
	mu   sync.Mutex
	last map[string]chan struct{} // closed when the last message of the name is finished
}

// handlerSlots limits how many handlers run concurrently, when more messages than that are received
// because some wait for others. nil means no limit here.
type handlerSlots chan struct{}

func (t handlerSlots) acquire() {
	if t != nil {
		t <- struct{}{}
	}
}

func (t handlerSlots) release() {
	if t != nil {
		<-t
	}
}

// runAfterEarlier returns a function that runs f after the earlier messages of the name. Call it in
// the order of arrival.
func (l *orderLanes) runAfterEarlier(name string, f func()) func() {
	if name == "" {
		return f
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before, mine := l.last[name], make(chan struct{})
	l.last[name] = mine
	return func() {
		defer l.finishMessage(name, mine)
		if before != nil {
			<-before
		}
		f()
	}
}

func (l *orderLanes) finishMessage(name string, mine chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(mine)
	if l.last[name] == mine {
		delete(l.last, name)
	}
}
