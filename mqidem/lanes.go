package mqidem

import "sync"

// lanes keep messages of one name one behind the other.
type lanes struct {
	mu   sync.Mutex
	last map[string]chan struct{} // closed when the last message of the name is through
}

// turns bound how many handlers run at once, where more messages than that are in hand since they
// wait for others. Nil: nothing is bound here.
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

// behind makes f wait for those of the name that were here before. It is called in the order of
// their coming.
func (l *lanes) behind(name string, f func()) func() {
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
