package mqidem

import (
	"maps"
	"slices"
	"time"
)

// Headers that adapters and this package write. A broker that has a place of its own for an id or a
// content type is given it there as well.
const (
	// HeaderID has the id, where the broker's own place for it is too small, or means something
	// else (as Nats-Msg-Id does).
	HeaderID = "retrysafe-id"
	// HeaderKey has [Message].Key, where the broker has no place for it.
	HeaderKey = "retrysafe-key"
	// HeaderContentType has the media type, where the broker has no place for it.
	HeaderContentType = "content-type"
	// HeaderDead is on parked messages: the [Reason], as [Reason.Pack] writes it.
	HeaderDead = "retrysafe-dead"
	// HeaderRedrives counts how often a message was put back from the parking queue, in decimal.
	HeaderRedrives = "retrysafe-redrives"
	// HeaderTries counts how often a copy was put back for a later try, in decimal, where the
	// broker does not count deliveries of copies.
	HeaderTries = "retrysafe-tries"
)

// Message is what a broker delivered.
type Message struct {
	// ID is what repeats are known by: what the producer has set. Empty: none; see [Options].ID and
	// [Options].MissingID.
	ID string
	// Source is the queue, subject, topic or stream that it came by, as the broker names it:
	// [Parking.Send] puts it back there.
	Source string
	// Key is what the producer asked an order for (Kafka's key, the outbox's Key), or empty.
	Key string
	// ContentType is a media type, or empty.
	ContentType string
	// Headers are the producer's. Of several with one name the last counts. Handlers must not
	// change them.
	Headers map[string][]byte
	// Body is the content. Handlers must not change it.
	Body []byte
	// Deliveries is how often the broker says that it has delivered it, copies for later tries
	// included: 1 at first. It may be too low (a classic queue says no more than "again": 2), and
	// it never decides how often the work is tried.
	Deliveries int
	// Published is when the broker got it, where it says so.
	Published time.Time

	// run is what Consume and the handlers of this package tell each other; nil outside of Consume.
	run *run
}

// Header returns a header's value as text; empty where there is none.
func (m *Message) Header(name string) string { return string(m.Headers[name]) }

// Clone is a message of its own with the same content.
func (m *Message) Clone() *Message {
	c := *m
	c.run = nil
	c.Headers, c.Body = maps.Clone(m.Headers), slices.Clone(m.Body)
	for name, v := range c.Headers {
		c.Headers[name] = slices.Clone(v)
	}
	return &c
}
