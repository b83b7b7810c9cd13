package h1client

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/gateway/internal/h1"
)

// usualAnswer parses the head of an answer that cannot be read in two ways: a final status, fields,
// and the length of a body. It returns what net/http would return; a fuzz target compares both. It
// returns nil if net/http must parse the head. It omits fields of the connection.
func usualAnswer(head string) *http.Response {
	line, rest, _ := strings.Cut(head, "\r\n")
	status, ok := usualStatus(line)
	if !ok {
		return nil
	}
	resp := &http.Response{StatusCode: status, Header: make(http.Header, 8), ContentLength: -1, Body: http.NoBody}
	values := make([]string, 0, strings.Count(rest, "\n"))
	for rest != "" {
		var name, value string
		if name, value, rest, ok = h1.ReadField(rest); !ok {
			return nil
		}
		switch name {
		case "Transfer-Encoding", "Trailer", "Upgrade", "Pragma", "Te", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization":
			return nil
		case "Connection":
			if !strings.EqualFold(value, "keep-alive") {
				return nil
			}
			continue
		case "Keep-Alive":
			continue
		case "Content-Length":
			n, err := strconv.ParseUint(value, 10, 31)
			if err != nil || resp.ContentLength >= 0 || value[0] == '+' {
				return nil
			}
			resp.ContentLength = int64(n)
		}
		values = h1.AddField(resp.Header, name, value, values)
	}
	if resp.ContentLength < 0 {
		return nil
	}
	return resp
}

// usualStatus parses a status line whose status has a body.
func usualStatus(line string) (int, bool) {
	code, ok := strings.CutPrefix(line, "HTTP/1.1 ")
	if !ok || len(code) < 4 || code[3] != ' ' || !h1.IsValue(code) {
		return 0, false
	}
	status, err := strconv.Atoi(code[:3])
	return status, err == nil && code[0] >= '2' && status < 600 && h1.BodyAllowed(status)
}

// EventStream reports whether an answer is a stream of server-sent events.
func EventStream(resp *http.Response) bool {
	return strings.HasPrefix(strings.ToLower(resp.Header.Get("Content-Type")), "text/event-stream")
}
