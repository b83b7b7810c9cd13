package httpidem

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// codecName names the format of stored answers: a plain HTTP/1.1 message (RFC 9112, section 2) with
// its fields sorted by name.
const codecName = "message/http"

// maxHead is the largest head that is stored, in bytes. A larger one is reduced to what an operator
// needs to find the answer.
const maxHead = 64 << 10

// notStored are the fields that belong to one transfer, not to the answer, or that are set again
// for each answer.
var notStored = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Proxy-Authenticate": true, "Proxy-Authorization": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true, "Content-Length": true, "Age": true, "Alt-Svc": true,
	headerReplayed: true, headerStored: true, headerOutcome: true,
}

// appendHead appends the status line and the fields. It omits fields that outer handlers have set
// and the handler has not changed: the outer handlers set them again for each answer.
func appendHead(b []byte, status int, h, outer http.Header, cookies bool) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(status)...)
	b = append(b, "\r\n"...)
	var space [24]string
	names := space[:0]
	for name := range h {
		proper := http.CanonicalHeaderKey(name) // handlers may write any name into the map
		if notStored[proper] || !cookies && proper == "Set-Cookie" || !IsToken(name) || named(h["Connection"], name) {
			continue
		}
		if before, set := outer[name]; !set || !slices.Equal(before, h[name]) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for _, v := range h[name] {
			b = append(append(b, name...), ": "...)
			b = appendFieldValue(b, v)
			b = append(b, "\r\n"...)
		}
	}
	return append(b, "\r\n"...)
}

// named reports whether the Connection field makes name hop-by-hop.
func named(connection []string, name string) bool {
	for _, line := range connection {
		for token := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(token), name) {
				return true
			}
		}
	}
	return false
}

// appendFieldValue writes a value as net/http would: without surrounding white space, and with line
// breaks as spaces.
func appendFieldValue(b []byte, v string) []byte {
	v = strings.Trim(v, " \t\r\n")
	for i := range len(v) {
		c := v[i]
		if c == '\r' || c == '\n' {
			c = ' '
		}
		b = append(b, c)
	}
	return b
}

// message is a parsed stored answer. names[i] and values[i] belong together.
type message struct {
	status        int
	names, values []string
	trailer       http.Header // nil: none
	body          []byte
}

var errMessage = errors.New("the stored answer is damaged")

// parse parses an appendHead followed by a body. It does not copy the body.
func (m *message) parse(b []byte) error {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return errMessage
	}
	m.body = b[end+4:]
	rest := string(b[:end+2]) // each line with its line break
	line, rest, _ := cutLine(rest)
	code, ok := strings.CutPrefix(line, "HTTP/1.1 ")
	if !ok || len(code) < 4 || code[3] != ' ' {
		return errMessage
	}
	status, err := strconv.Atoi(code[:3])
	if err != nil || status < 200 || status > 999 {
		return errMessage
	}
	n := strings.Count(rest, "\n")
	both := make([]string, 2*n+1) // one more for Content-Length
	m.status, m.values, m.names = status, both[:0:n+1], both[n+1:n+1]
	for rest != "" {
		line, rest, ok = cutLine(rest)
		colon := strings.IndexByte(line, ':')
		if !ok || colon < 0 || !IsToken(line[:colon]) {
			return errMessage
		}
		if trailer, is := strings.CutPrefix(line, storedTrailer); is {
			m.addTrailer(trailer)
			continue
		}
		m.names = append(m.names, line[:colon])
		m.values = append(m.values, strings.TrimPrefix(line[colon+1:], " "))
	}
	return nil
}

// cutLine cuts s after its first line. ok is false if that line does not end in CRLF.
func cutLine(s string) (line, rest string, ok bool) {
	i := strings.IndexByte(s, '\n')
	if i < 1 || strings.IndexByte(s[:i], '\r') != i-1 {
		return "", "", false
	}
	return s[:i-1], s[i+1:], true
}

func (m *message) get(name string) string {
	if i := slices.Index(m.names, name); i >= 0 {
		return m.values[i]
	}
	return ""
}

// header sets the fields on h, with the values of one name together. If the status allows a body,
// it sets Content-Length, or else announces the trailers: HTTP/1.1 has only one of both.
func (m *message) header(h http.Header) {
	for i := 0; i < len(m.names); {
		j := i + 1
		for j < len(m.names) && m.names[j] == m.names[i] {
			j++
		}
		h[m.names[i]] = m.values[i:j:j]
		i = j
	}
	switch {
	case !bodyAllowed(m.status):
		m.trailer = nil
	case len(m.trailer) > 0:
		for _, name := range slices.Sorted(maps.Keys(m.trailer)) {
			h.Add("Trailer", name)
		}
	default:
		n := len(m.values)
		m.values = append(m.values, strconv.Itoa(len(m.body)))
		h["Content-Length"] = m.values[n : n+1 : n+1]
	}
}
