package mqidem

import (
	"crypto/sha256"
	"sync"
)

// mostReturned is how many messages a consumer returns because it could not dead-letter them.
const mostReturned = 1000

// returnedHistory keeps the history of messages that were returned to the broker because they
// could not be moved to the dead-letter queue. This consumer does not run them again.
type returnedHistory struct {
	mu        sync.Mutex
	histories map[[sha256.Size]byte]history
}

func messageDigest(m *Message) (name [sha256.Size]byte) {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(m.Source), []byte(m.ID), m.Body} {
		sum := sha256.Sum256(part)
		_, _ = h.Write(sum[:]) // never fails
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// add reports whether there was room; if not, the consumer keeps the message.
func (s *returnedHistory) add(m *Message, h history) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.histories) == mostReturned {
		return false
	}
	if s.histories == nil {
		s.histories = map[[sha256.Size]byte]history{}
	}
	s.histories[messageDigest(m)] = h
	return true
}

// pop returns the history of a message and forgets it.
func (s *returnedHistory) pop(m *Message) history {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.histories) == 0 {
		return history{}
	}
	name := messageDigest(m)
	h := s.histories[name]
	delete(s.histories, name)
	return h
}
