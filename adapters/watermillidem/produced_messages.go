package watermillidem

import (
	"github.com/ThreeDotsLabs/watermill/message"
)

// producedMessage is the stored form of a message that a handler has produced.
type producedMessage struct {
	UUID     string            `json:"uuid"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Payload  []byte            `json:"payload"`
}

// packMessages returns the answer for a record.
func packMessages(made []*message.Message) []producedMessage {
	all := make([]producedMessage, 0, len(made))
	for _, m := range made {
		all = append(all, producedMessage{m.UUID, m.Metadata, m.Payload})
	}
	return all
}

func unpackMessages(all []producedMessage) []*message.Message {
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
