package mqidem

import (
	"crypto/sha256"
	"sync"
)

// mostShelved is how many messages a consumer gives back because it could not dead-letter them.
const mostShelved = 1000

// shelf remembers the state of messages that were given back because they could not be moved to the
// dead-letter queue. This consumer does not run them again.
type shelf struct {
	mu   sync.Mutex
	past map[[sha256.Size]byte]past
}

func nameOf(m *Message) (name [sha256.Size]byte) {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(m.Source), []byte(m.ID), m.Body} {
		sum := sha256.Sum256(part)
		_, _ = h.Write(sum[:]) // never fails
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// put reports whether there was room; if not, the consumer keeps the message.
func (s *shelf) put(m *Message, p past) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.past) == mostShelved {
		return false
	}
	if s.past == nil {
		s.past = map[[sha256.Size]byte]past{}
	}
	s.past[nameOf(m)] = p
	return true
}

// take returns the state of a message and forgets it.
func (s *shelf) take(m *Message) past {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.past) == 0 {
		return past{}
	}
	name := nameOf(m)
	p := s.past[name]
	delete(s.past, name)
	return p
}
