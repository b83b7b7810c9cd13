package watermillidem

import (
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
)

// produced is a message that a handler has made, as its record keeps it.
type produced struct {
	UUID     string            `json:"uuid"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Payload  []byte            `json:"payload"`
}

// pack makes the answer of a record. It is refused where it would not be kept: a repeat would lose the messages.
func pack(made []*message.Message, most int64) ([]produced, error) {
	all := make([]produced, 0, len(made))
	var size int64
	for _, m := range made {
		all = append(all, produced{m.UUID, m.Metadata, m.Payload})
		size += int64(len(m.UUID)) + int64(len(m.Payload))*4/3 + 64
		for name, value := range m.Metadata {
			size += int64(len(name)+len(value)) + 8
		}
	}
	if size > most*9/10 {
		return nil, fmt.Errorf("watermillidem: the handler made %d messages of about %d bytes, and the record of a message keeps %d (Policy.MaxAnswer); make fewer, or publish them where they are made", len(made), size, most)
	}
	return all, nil
}

func unpack(all []produced) []*message.Message {
	var made []*message.Message
	for _, p := range all {
		m := message.NewMessage(p.UUID, p.Payload)
		for name, value := range p.Metadata {
			m.Metadata.Set(name, value)
		}
		made = append(made, m)
	}
	return made
}
