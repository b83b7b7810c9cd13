package gateway

import (
	"bytes"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
)

// wholeRequest parses a request that the front serves from the start of b. It accepts the part of
// HTTP/1.1 that cannot be read in two ways, and parses it as net/http does; a fuzz target compares
// both. net/http gets all other requests.
//
// length is the length of the request, once its head is complete. If that exceeds b, r is nil and
// more must be read. ok is false if the front does not serve the request, or if the head is
// incomplete. bare is a request with everything that does not come over the wire.
func wholeRequest(bare *http.Request, b []byte) (r *http.Request, length int, ok bool) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return nil, 0, false
	}
	r, size, ok := readHead(bare, string(b[:end+2]))
	if !ok {
		return nil, 0, false
	}
	length = end + 4 + size
	if len(b) < length {
		return nil, length, true
	}
	r.Body = http.NoBody
	if size > 0 {
		body := new(frontBody)
		// a reader of the body may outlive the front's use of b
		body.Reset(bytes.Clone(b[end+4 : length]))
		r.Body = body
	}
	return r, length, true
}

type frontBody struct{ bytes.Reader }

func (*frontBody) Close() error { return nil }

// frontBodyMost is the largest body that the front reads, in bytes.
const frontBodyMost = 64 << 10

// readHead parses a head whose lines all end in CRLF, without the empty line.
func readHead(bare *http.Request, head string) (r *http.Request, size int, ok bool) {
	line, rest, _ := strings.Cut(head, "\r\n")
	method, target, _ := strings.Cut(line, " ")
	target, ok = strings.CutSuffix(target, " HTTP/1.1")
	if !ok || !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") {
		return nil, 0, false
	}
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return nil, 0, false
	}
	u := readTarget(target)
	if u == nil {
		return nil, 0, false
	}
	r = new(http.Request)
	*r = *bare
	r.Method, r.URL, r.RequestURI, r.Header = method, u, target, make(http.Header, 8)
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	values := make([]string, 0, strings.Count(rest, "\n"))
	size = -1
	for rest != "" {
		var name, value string
		if name, value, rest, ok = readField(rest); !ok {
			return nil, 0, false
		}
		switch name {
		case "Transfer-Encoding", "Connection", "Expect", "Upgrade", "Trailer", "Te", "Proxy-Connection", "Keep-Alive", "Http2-Settings", "Pragma":
			return nil, 0, false
		case "Host":
			if r.Host != "" || value == "" || !ofHost.has(value) {
				return nil, 0, false
			}
			r.Host = value
			continue
		case "Content-Length":
			n, err := strconv.Atoi(value)
			if err != nil || size >= 0 || n < 0 || n > frontBodyMost || value[0] == '+' || value[0] == '-' {
				return nil, 0, false
			}
			size = n
		}
		values = addField(r.Header, name, value, values)
	}
	if r.Host == "" {
		return nil, 0, false
	}
	r.ContentLength = int64(max(size, 0))
	return r, max(size, 0), true
}

const (
	alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	// pathBytes and queryBytes are the bytes that stand for themselves.
	pathBytes  = alphanumeric + "-._~/"
	queryBytes = pathBytes + "=&%+,:;@!$'()*?"
)

// byteSet has true for each byte that belongs to the set.
type byteSet [256]bool

func bytesOf(s string) (set byteSet) {
	for i := range len(s) {
		set[s[i]] = true
	}
	return set
}

func (set *byteSet) has(s string) bool {
	for i := range len(s) {
		if !set[s[i]] {
			return false
		}
	}
	return true
}

var (
	ofPath  = bytesOf(pathBytes)
	ofQuery = bytesOf(queryBytes)
	ofHost  = bytesOf(alphanumeric + ".:-[]_")
	ofName  = bytesOf(alphanumeric + "!#$%&'*+-.^_`|~")
	ofValue = func() (set byteSet) { // including bytes above ASCII, as net/http does
		for c := range set {
			set[c] = c >= ' ' && c != 0x7f || c == '\t'
		}
		return set
	}()
)

// readTarget returns the URL of a path and query, or nil if something in the path has to be
// decoded.
func readTarget(target string) *url.URL {
	path, query, asked := strings.Cut(target, "?")
	if !ofPath.has(path) || !ofQuery.has(query) {
		return nil
	}
	return &url.URL{Path: path, RawQuery: query, ForceQuery: asked && query == ""}
}

// readField parses the line at the start of s.
func readField(s string) (name, value, rest string, ok bool) {
	line, rest, _ := strings.Cut(s, "\r\n")
	name, value, ok = strings.Cut(line, ":")
	if !ok || name == "" || !ofName.has(name) {
		return "", "", "", false
	}
	value = strings.Trim(value, " \t")
	return textproto.CanonicalMIMEHeaderKey(name), value, rest, ofValue.has(value)
}

// addField adds a field line to h. It puts the first value of a name into values, which has room
// for it.
func addField(h http.Header, name, value string, values []string) []string {
	if before, is := h[name]; is {
		h[name] = append(before, value)
		return values
	}
	n := len(values)
	values = append(values, value)
	h[name] = values[n : n+1 : n+1]
	return values
}
