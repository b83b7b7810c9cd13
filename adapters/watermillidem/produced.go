package watermillidem

import (
	"github.com/ThreeDotsLabs/watermill/message"
)

// produced is the stored form of a message that a handler has produced.
type produced struct {
	UUID     string            `json:"uuid"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Payload  []byte            `json:"payload"`
}

// pack returns the answer for a record.
func pack(made []*message.Message) []produced {
	all := make([]produced, 0, len(made))
	for _, m := range made {
		all = append(all, produced{m.UUID, m.Metadata, m.Payload})
	}
	return all
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
