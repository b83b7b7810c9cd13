package redisstreamidem

import (
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/mqidem"
)

// fieldBody is the name of the body: the first field of that name. A header may have that name too.
const fieldBody = "body"

// mostFields is how many fields and values of an entry a script can pass on.
const mostFields = 4000

// entry is an entry of a stream.
type entry struct {
	id         string
	deliveries int
	fields     []string // names and values, in turn
}

// parseEntries parses the reply of a script: an id, a count and fields for each entry.
func parseEntries(v any, err error) ([]entry, error) {
	a, err := parseArray(v, err)
	if err != nil {
		return nil, err
	}
	out := make([]entry, 0, len(a))
	for _, one := range a {
		e, err := parseArray(one, nil)
		if err != nil || len(e) != 3 {
			return nil, errUnexpectedReply
		}
		id, isText := e[0].(string)
		n, isNumber := e[1].(int64)
		fields, err := parseTexts(e[2], nil)
		if !isText || !isNumber || err != nil {
			return nil, errUnexpectedReply
		}
		out = append(out, entry{id: id, deliveries: int(n), fields: fields})
	}
	return out, nil
}

// parseEntriesAndLost parses entries, and ids of those that the stream has lost.
func parseEntriesAndLost(both []any, err error) (got []entry, lost []string, _ error) {
	if err == nil && len(both) != 2 {
		err = errUnexpectedReply
	}
	if err != nil {
		return nil, nil, err
	}
	if got, err = parseEntries(both[0], nil); err == nil {
		lost, err = parseTexts(both[1], nil)
	}
	return got, lost, err
}

// message returns the message of an entry.
func (e entry) message(stream string) *mqidem.Message {
	m := &mqidem.Message{Source: stream, Headers: map[string][]byte{}, Deliveries: e.deliveries, Published: idTime(e.id)}
	for i := 0; i+1 < len(e.fields); i += 2 {
		switch name, value := e.fields[i], e.fields[i+1]; {
		case name == fieldBody && m.Body == nil:
			m.Body = []byte(value)
		case name == mqidem.HeaderID:
			m.ID = value
		case name == mqidem.HeaderKey:
			m.Key = value
		case name == mqidem.HeaderContentType:
			m.ContentType = value
		default:
			m.Headers[name] = []byte(value)
		}
	}
	return m
}

// messageFields is the reverse of message.
func messageFields(m *mqidem.Message) []string {
	f := contentFields(m.ID, m.Key, m.ContentType, m.Body)
	for name, value := range m.Headers {
		if !isOwnField(name) {
			f = append(f, name, string(value))
		}
	}
	return f
}

// contentFields returns the fields that are not headers. The body comes first, so that a header of
// its name is not taken for it.
func contentFields(id, key, contentType string, body []byte) []string {
	f := []string{fieldBody, string(body)}
	for _, one := range [][2]string{{mqidem.HeaderID, id}, {mqidem.HeaderKey, key}, {mqidem.HeaderContentType, contentType}} {
		if one[1] != "" {
			f = append(f, one[0], one[1])
		}
	}
	return f
}

func isOwnField(name string) bool {
	return name == mqidem.HeaderID || name == mqidem.HeaderKey || name == mqidem.HeaderContentType
}

// idTime returns the time in an id that the server has made: the milliseconds before the hyphen.
func idTime(id string) time.Time {
	ms, _, _ := strings.Cut(id, "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil || n < 1e11 { // the id was set by a producer
		return time.Time{}
	}
	return time.UnixMilli(n)
}
