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

// newMessage builds a message from a subject and headers.
func newMessage(subject string, h nats.Header, body []byte, published time.Time, deliveries int) *mqidem.Message {
	m := &mqidem.Message{
		ID: lastValue(h, mqidem.HeaderID), Source: subject, Key: unquoteKey(lastValue(h, mqidem.HeaderKey)), ContentType: lastValue(h, mqidem.HeaderContentType),
		Headers: map[string][]byte{}, Body: body, Deliveries: deliveries, Published: published,
	}
	if _, named := h[mqidem.HeaderID]; !named {
		m.ID = h.Get(jetstream.MsgIDHeader)
	}
	for name, values := range h {
		if !isOwnHeader(name) && len(values) > 0 {
			m.Headers[name] = []byte(values[len(values)-1])
		}
	}
	return m
}

// messageHeader is the reverse of newMessage, except for Nats-Msg-Id.
func messageHeader(m *mqidem.Message) nats.Header {
	h := nats.Header{}
	for name, value := range m.Headers {
		if !isOwnHeader(name) {
			h[name] = []string{string(value)}
		}
	}
	setFieldHeaders(h, m.ID, m.Key, m.ContentType)
	return h
}

// setFieldHeaders sets the headers for what the protocol has no field for.
func setFieldHeaders(h nats.Header, id, key, contentType string) {
	for name, value := range map[string]string{mqidem.HeaderID: id, mqidem.HeaderKey: quoteKey(key), mqidem.HeaderContentType: contentType} {
		if value != "" {
			h[name] = []string{value}
		}
	}
}

// isOwnHeader reports whether a header has its own field or is the server's.
func isOwnHeader(name string) bool {
	return name == mqidem.HeaderID || name == mqidem.HeaderKey || name == mqidem.HeaderContentType || strings.HasPrefix(name, serverHeaders)
}

func lastValue(h nats.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

// quoteKey encodes a key as text. The protocol would trim it and turn line breaks into spaces, so
// two keys could become one.
func quoteKey(key string) string {
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' || key[0] == '"' {
			return strconv.QuoteToASCII(key)
		}
	}
	return key
}

func unquoteKey(key string) string {
	if strings.HasPrefix(key, `"`) {
		if plain, err := strconv.Unquote(key); err == nil {
			return plain
		}
	}
	return key
}
