package mqidem

import "sync"

// lanes handle the messages of one name one after the other.
type lanes struct {
	mu   sync.Mutex
	last map[string]chan struct{} // closed when the last message of the name is finished
}

// turns limits how many handlers run concurrently, when more messages than that are received
// because some wait for others. nil means no limit here.
type turns chan struct{}

func (t turns) take() {
	if t != nil {
		t <- struct{}{}
	}
}

func (t turns) leave() {
	if t != nil {
		<-t
	}
}

// Its result runs f after the earlier messages of the name. Call it in the order of arrival.
func (l *lanes) after(name string, f func()) func() {
	if name == "" {
		return f
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before, mine := l.last[name], make(chan struct{})
	l.last[name] = mine
	return func() {
		defer l.leave(name, mine)
		if before != nil {
			<-before
		}
		f()
	}
}

func (l *lanes) leave(name string, mine chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(mine)
	if l.last[name] == mine {
		delete(l.last, name)
	}
}
