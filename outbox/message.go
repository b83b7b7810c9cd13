package outbox

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Message is a message to publish.
type Message struct {
	// ID identifies the message and its duplicates for consumers and brokers: visible ASCII, at
	// most 128 bytes. If it is empty, Add makes one of 128 random bits. A transaction that is run
	// again may use another id, since the first was never published. See [NewID].
	ID string
	// Topic is where to publish: a topic, subject, routing key or stream. Text, 1 to 255 bytes.
	Topic string
	// Key is what the order holds for: any bytes, at most 512. Empty means no order.
	Key string
	// Headers become the broker's headers. Names are visible ASCII without a colon, values are text
	// without line breaks; at most 16 KiB in all.
	Headers map[string]string
	// ContentType is a media type, or empty; at most 255 bytes.
	ContentType string
	// Payload is the content, at most [Options].MaxPayload bytes.
	Payload []byte
}

// Outgoing is a message that a relay publishes.
type Outgoing struct {
	Message
	// Added is when Add was called, on the database's clock.
	Added time.Time
	// Attempt is the number of failed publications of this message, plus one. It is 1 at first, and
	// also if an earlier publication left no trace.
	Attempt int
	// Partition is the partition of the key. Fence grows each time another relay takes the
	// partition over. A consumer that stores the largest fence of a partition can refuse a relay
	// that is late.
	Partition int
	Fence     uint64

	seq  int64
	hash [hashSize]byte
}

// Partitions is the number of partitions of the keys. Relays beyond that number have nothing to do.
const Partitions = 32

// Limits of a message.
const (
	maxID          = 128
	maxTopic       = 255
	maxKey         = 512
	maxContentType = 255
	maxHeaders     = 16 << 10
	hashSize       = 16
)

// NewID returns an id of 128 random bits, as Add uses it.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// keyHash returns the hash and the partition of a message. Messages of one hash are in order, and a
// hash is in one partition. A message without a key has its own hash.
func (m *Message) keyHash() (hash [hashSize]byte, part int) {
	text := "key\x00" + m.Key
	if m.Key == "" {
		text = "id\x00" + m.ID
	}
	sum := sha256.Sum256([]byte(text))
	copy(hash[:], sum[:])
	return hash, int(sum[hashSize]) % Partitions
}

// checkLimits refuses what a database or a broker would truncate or change. Its errors show no
// content.
func (m *Message) checkLimits(maxPayload int) error {
	switch {
	case len(m.ID) > maxID || !isVisibleASCII(m.ID, ""):
		return fmt.Errorf("the ID has %d bytes; use visible ASCII, at most %d bytes, or leave it empty", len(m.ID), maxID)
	case m.Topic == "" || len(m.Topic) > maxTopic || !isOneLineText(m.Topic):
		return fmt.Errorf("the Topic has %d bytes; use text without line breaks, 1 to %d bytes", len(m.Topic), maxTopic)
	case len(m.Key) > maxKey:
		return fmt.Errorf("the Key has %d bytes; at most %d are kept: use a digest of it", len(m.Key), maxKey)
	case len(m.ContentType) > maxContentType || !isOneLineText(m.ContentType):
		return fmt.Errorf("the ContentType has %d bytes; use text without line breaks, at most %d bytes", len(m.ContentType), maxContentType)
	case len(m.Payload) > maxPayload:
		return fmt.Errorf("the Payload has %d bytes; at most %d are allowed: raise Options.MaxPayload if the broker takes more, or put it elsewhere "+
			"and publish where it is", len(m.Payload), maxPayload)
	}
	total := 0
	for name, value := range m.Headers {
		total += len(name) + len(value)
		if name == "" || !isVisibleASCII(name, ":") || !isOneLineText(value) {
			return fmt.Errorf("a name of the Headers, or its value, cannot be sent; use visible ASCII without a colon for names and text without line breaks for values")
		}
	}
	if total > maxHeaders {
		return fmt.Errorf("the Headers have %d bytes; at most %d are allowed", total, maxHeaders)
	}
	return nil
}

func isVisibleASCII(s, but string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return !strings.ContainsAny(s, but)
}

func isOneLineText(s string) bool { return utf8.ValidString(s) && !strings.ContainsAny(s, "\r\n\x00") }

func packHeaders(h map[string]string) []byte {
	if len(h) == 0 {
		return []byte{}
	}
	packed, _ := json.Marshal(h) // strings never fail
	return packed
}

func unpackHeaders(packed []byte) (h map[string]string, err error) {
	if len(packed) == 0 {
		return nil, nil
	}
	if err = json.Unmarshal(packed, &h); err != nil {
		return nil, fmt.Errorf("the headers of a message are not JSON, so its row was changed by another program; restore it, or delete it: %w", err)
	}
	return h, nil
}
