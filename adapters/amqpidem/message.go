package amqpidem

import (
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe/mqidem"
)

// HeaderRoutingKey is in [mqidem.Message].Headers of messages that were published to an exchange.
// It is the routing key, which later tries keep.
const HeaderRoutingKey = "retrysafe-routing-key"

// ownHeaders are the headers that become fields of a message or are internal.
var ownHeaders = []string{mqidem.HeaderID, mqidem.HeaderKey, mqidem.HeaderTries, mqidem.HeaderDead, HeaderProperties}

// isBrokerHeader reports whether a header is written by the broker or makes it send copies
// elsewhere. Such headers would do harm on a copy: the broker drops a message whose x-death names
// its queue as a cycle, and CC sends each later try to other queues too.
func isBrokerHeader(name string) bool {
	switch name {
	case "x-death", "x-delivery-count", "x-acquired-count", "CC", "BCC":
		return true
	}
	return strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
}

// readMessage returns the message of a delivery. source is the queue that it came from, or the
// queue that it was consumed from before it became a dead letter.
func readMessage(d *amqp.Delivery, source string) mqidem.Message {
	m := mqidem.Message{
		ID: d.MessageId, Source: source, ContentType: d.ContentType, Headers: make(map[string][]byte, len(d.Headers)), Body: d.Body,
		Deliveries: 1 + countTries(d.Headers), Published: d.Timestamp,
	}
	for name, v := range d.Headers {
		if !isBrokerHeader(name) {
			m.Headers[name] = headerText(v)
		}
	}
	if id := m.Header(mqidem.HeaderID); id != "" {
		m.ID = id
	}
	m.Key = m.Header(mqidem.HeaderKey)
	for _, name := range ownHeaders {
		delete(m.Headers, name)
	}
	if d.Exchange != "" && m.Headers[HeaderRoutingKey] == nil {
		m.Headers[HeaderRoutingKey] = []byte(d.RoutingKey)
	}
	if n, ok := parseCount(d.Headers["x-delivery-count"]); ok {
		m.Deliveries += n
	} else if d.Redelivered {
		m.Deliveries++
	}
	return m
}

// countTries returns how many copies there were before this one.
func countTries(headers amqp.Table) int {
	n, _ := parseCount(headers[mqidem.HeaderTries])
	return n
}

// parseCount reads a count of any type.
func parseCount(v any) (int, bool) {
	if v == nil {
		return 0, false
	}
	const most = 1 << 30
	n, err := strconv.ParseUint(string(headerText(v)), 10, 62)
	return int(min(n, most)), err == nil
}

// republishCopy returns a copy of a message with all its content, for this broker and user.
func republishCopy(d *amqp.Delivery, user string) amqp.Publishing {
	p := amqp.Publishing{
		Headers: maps.Clone(d.Headers), ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: amqp.Persistent, Priority: d.Priority,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type, AppId: d.AppId, Body: d.Body,
		// Expiration is left out: it would end the wait for a later try, or drop a dead letter.
	}
	if d.UserId == user { // otherwise the broker would refuse it and close the channel
		p.UserId = d.UserId
	}
	if p.Headers == nil {
		p.Headers = amqp.Table{}
	}
	maps.DeleteFunc(p.Headers, func(name string, _ any) bool { return isBrokerHeader(name) })
	delete(p.Headers, HeaderProperties)
	if _, ok := p.Headers[HeaderRoutingKey]; !ok && d.Exchange != "" {
		p.Headers[HeaderRoutingKey] = d.RoutingKey
	}
	return p
}

// setMessageID sets the id of a message: in the property, or in a header if the property cannot
// hold it.
func setMessageID(p *amqp.Publishing, id string) {
	p.MessageId = id
	delete(p.Headers, mqidem.HeaderID)
	if len(id) > maxName || !utf8.ValidString(id) || strings.ContainsRune(id, 0) {
		p.MessageId = ""
		p.Headers[mqidem.HeaderID] = id
	}
}

// amqpTime returns a time for AMQP, or the zero time if AMQP cannot represent it.
func amqpTime(t time.Time) time.Time {
	if t.Unix() <= 0 {
		return time.Time{}
	}
	return t
}
