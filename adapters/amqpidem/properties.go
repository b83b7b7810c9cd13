package amqpidem

import (
	"bytes"
	"encoding/json"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe/mqidem"
)

// HeaderProperties is in messages that [DeadLetters.Walk] shows, if they had more than
// [mqidem.Message] can represent: the properties of AMQP, and headers that are not text.
// [DeadLetters.Send] restores them and removes the header.
const HeaderProperties = "retrysafe-amqp"

// storedProperties are the other properties of a message. Their texts may have any bytes.
type storedProperties struct {
	Encoding    []byte                `json:"encoding,omitempty"`
	Correlation []byte                `json:"correlation,omitempty"`
	ReplyTo     []byte                `json:"reply_to,omitempty"`
	Type        []byte                `json:"type,omitempty"`
	App         []byte                `json:"app,omitempty"`
	User        []byte                `json:"user,omitempty"`
	Priority    uint8                 `json:"priority,omitempty"`
	Headers     map[string]typedValue `json:"headers,omitempty"`
}

// keepProperties stores in a header of m what m cannot represent.
func keepProperties(m *mqidem.Message, d *amqp.Delivery) {
	p := storedProperties{
		Encoding: []byte(d.ContentEncoding), Correlation: []byte(d.CorrelationId), ReplyTo: []byte(d.ReplyTo), Type: []byte(d.Type), App: []byte(d.AppId),
		User: []byte(d.UserId), Priority: d.Priority, Headers: map[string]typedValue{},
	}
	for name := range m.Headers {
		if v, ok := d.Headers[name]; ok {
			if _, isText := v.(string); !isText {
				p.Headers[name] = wrapValue(v)
			}
		}
	}
	packed, err := json.Marshal(p)
	if err == nil && string(packed) != "{}" {
		m.Headers[HeaderProperties] = packed
	}
}

// toPublishing returns m for publishing, with what keepProperties has stored.
func toPublishing(m *mqidem.Message, user string) amqp.Publishing {
	var had storedProperties
	if packed := m.Headers[HeaderProperties]; json.Unmarshal(packed, &had) != nil {
		had = storedProperties{}
	}
	p := amqp.Publishing{
		Headers: make(amqp.Table, len(m.Headers)), ContentType: m.ContentType, ContentEncoding: string(had.Encoding), DeliveryMode: amqp.Persistent,
		Priority: had.Priority, CorrelationId: string(had.Correlation), ReplyTo: string(had.ReplyTo), Timestamp: amqpTime(m.Published), Type: string(had.Type),
		AppId: string(had.App), Body: m.Body,
	}
	if string(had.User) == user {
		p.UserId = user
	}
	for name, v := range m.Headers {
		if isBrokerHeader(name) {
			continue
		}
		p.Headers[name] = string(v)
		if t, ok := had.Headers[name]; ok && bytes.Equal(headerText(t.value()), v) {
			// not changed since
			p.Headers[name] = t.value()
		}
	}
	for _, name := range ownHeaders {
		delete(p.Headers, name)
	}
	if m.Key != "" {
		p.Headers[mqidem.HeaderKey] = m.Key
	}
	setMessageID(&p, m.ID)
	return p
}

// checkSizes returns an error if a field is longer than AMQP allows. The client would break the
// connection and show the value.
func checkSizes(p *publishing, frame int) *publishError {
	for _, s := range []struct{ name, value string }{
		{"routing key", p.key},
		{"content type", p.ContentType},
		{"content encoding", p.ContentEncoding},
		{"correlation id", p.CorrelationId},
		{"reply-to", p.ReplyTo},
		{"message id", p.MessageId},
		{"type", p.Type},
		{"user id", p.UserId},
		{"app id", p.AppId},
	} {
		if len(s.value) > maxName {
			return newPublishError(outcomeTooLarge, nil, "the %s has %d bytes, and AMQP takes at most %d; nothing was published", s.name, len(s.value), maxName)
		}
	}
	for name := range p.Headers {
		if len(name) > maxName {
			return newPublishError(outcomeTooLarge, nil, "the name of a header has %d bytes, and AMQP takes at most %d; nothing was published", len(name), maxName)
		}
	}
	const properties = 4 << 10 // the most that the fields above need, and the frame
	if size := wireSize(p.Headers); frame > 0 && size > frame-properties {
		return newPublishError(outcomeTooLarge, nil, "the headers have about %d bytes, and the broker takes at most %d of them; nothing was published: raise frame_max of the broker, "+
			"or use fewer headers", size, frame-properties)
	}
	return nil
}

// wireSize returns how many bytes a value takes on the wire, or a little more.
func wireSize(v any) int {
	switch v := v.(type) {
	case string:
		return 5 + len(v)
	case []byte:
		return 5 + len(v)
	case []any:
		n := 5
		for _, v := range v {
			n += wireSize(v)
		}
		return n
	case amqp.Table:
		n := 5
		for name, v := range v {
			n += 1 + len(name) + wireSize(v)
		}
		return n
	}
	return 9
}
