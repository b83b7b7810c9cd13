package natsidem

import (
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/mqidem"
)

// serverHeaders is the prefix of headers that are commands to the server. An old command must not
// be sent again.
const serverHeaders = "Nats-"

// message builds a message from a subject and headers.
func message(subject string, h nats.Header, body []byte, published time.Time, deliveries int) *mqidem.Message {
	m := &mqidem.Message{
		ID: last(h, mqidem.HeaderID), Source: subject, Key: unquote(last(h, mqidem.HeaderKey)), ContentType: last(h, mqidem.HeaderContentType),
		Headers: map[string][]byte{}, Body: body, Deliveries: deliveries, Published: published,
	}
	if _, named := h[mqidem.HeaderID]; !named {
		m.ID = h.Get(jetstream.MsgIDHeader)
	}
	for name, values := range h {
		if !ours(name) && len(values) > 0 {
			m.Headers[name] = []byte(values[len(values)-1])
		}
	}
	return m
}

// header is the reverse of message, except for Nats-Msg-Id.
func header(m *mqidem.Message) nats.Header {
	h := nats.Header{}
	for name, value := range m.Headers {
		if !ours(name) {
			h[name] = []string{string(value)}
		}
	}
	stamp(h, m.ID, m.Key, m.ContentType)
	return h
}

// stamp sets the headers for what the protocol has no field for.
func stamp(h nats.Header, id, key, contentType string) {
	for name, value := range map[string]string{mqidem.HeaderID: id, mqidem.HeaderKey: quote(key), mqidem.HeaderContentType: contentType} {
		if value != "" {
			h[name] = []string{value}
		}
	}
}

// ours reports whether a header has its own field or is the server's.
func ours(name string) bool {
	return name == mqidem.HeaderID || name == mqidem.HeaderKey || name == mqidem.HeaderContentType || strings.HasPrefix(name, serverHeaders)
}

func last(h nats.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

// quote encodes a key as text. The protocol would trim it and turn line breaks into spaces, so two
// keys could become one.
func quote(key string) string {
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' || key[0] == '"' {
			return strconv.QuoteToASCII(key)
		}
	}
	return key
}

func unquote(key string) string {
	if strings.HasPrefix(key, `"`) {
		if plain, err := strconv.Unquote(key); err == nil {
			return plain
		}
	}
	return key
}
