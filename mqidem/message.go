package mqidem

import (
	"maps"
	"slices"
	"time"
)

// Headers that adapters and this package set. A broker that has its own field for an id or a
// content type gets the value in that field as well.
const (
	// HeaderID holds the id if the broker's own field for it is too small, or means something else
	// (as Nats-Msg-Id does).
	HeaderID = "retrysafe-id"
	// HeaderKey holds [Message].Key if the broker has no field for it.
	HeaderKey = "retrysafe-key"
	// HeaderContentType holds the media type if the broker has no field for it.
	HeaderContentType = "content-type"
	// HeaderDead holds the [Reason] of a dead letter, as [Reason.Pack] writes it.
	HeaderDead = "retrysafe-dead"
	// HeaderRedrives holds how often the message was redriven from the dead-letter queue, in
	// decimal.
	HeaderRedrives = "retrysafe-redrives"
	// HeaderTries holds how often a copy was published again for a later try, in decimal, if the
	// broker does not count the deliveries of copies.
	HeaderTries = "retrysafe-tries"
)

// Message is a message that a broker delivered.
type Message struct {
	// ID identifies the message and its duplicates. The producer sets it. Empty means none; see
	// [Options].ID and [Options].MissingID.
	ID string
	// Source is the queue, subject, topic or stream that the message came from, as the broker names
	// it. [DeadLetters.Send] publishes it there.
	Source string
	// Key is the producer's ordering key (Kafka's key, the outbox's Key), or empty.
	Key string
	// ContentType is the media type, or empty.
	ContentType string
	// Headers are the producer's headers. If several have one name, the last one counts. Handlers
	// must not change them.
	Headers map[string][]byte
	// Body is the content. Handlers must not change it.
	Body []byte
	// Deliveries is how often the message was delivered according to the broker, copies for later
	// tries included: 1 at first. It can be too low (a classic queue only says "redelivered": 2).
	// It never decides how often the work is tried.
	Deliveries int
	// Published is when the broker got the message, if the broker says so.
	Published time.Time

	// passed is shared between Consume and the handlers of this package; nil outside of Consume.
	passed *handling
}

// Header returns the value of a header as text, or "" if the message has no such header.
func (m *Message) Header(name string) string { return string(m.Headers[name]) }

// Clone returns a deep copy of the message.
func (m *Message) Clone() *Message {
	c := *m
	c.passed = nil
	c.Headers, c.Body = maps.Clone(m.Headers), slices.Clone(m.Body)
	for name, v := range c.Headers {
		c.Headers[name] = slices.Clone(v)
	}
	return &c
}
