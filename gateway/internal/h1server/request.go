package h1server

import (
	"bytes"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/gateway/internal/h1"
)

// wholeRequest parses a request that the fast path serves from the start of b. It accepts the part
// of HTTP/1.1 that cannot be read in two ways, and parses it as net/http does; a fuzz target
// compares both. net/http gets all other requests.
//
// length is the length of the request, once its head is complete. If that exceeds b, r is nil and
// more must be read. ok is false if the fast path does not serve the request, or if the head is
// incomplete. b must not be used again after a request that is longer than bufferSize: its body is
// b. bare is a request with everything that does not come over the wire.
func wholeRequest(bare *http.Request, b []byte) (r *http.Request, length int, ok bool) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return nil, 0, false
	}
	x, size, ok := readHead(bare, string(b[:end+2]))
	if !ok {
		return nil, 0, false
	}
	r = &x.request
	length = end + 4 + size
	if len(b) < length {
		return nil, length, true
	}
	r.Body = http.NoBody
	switch {
	case length > bufferSize:
		large := new(largeBody)
		large.in.Reset(b[end+4 : length])
		r.Body = large
	case size > 0:
		// a reader of the body may outlive the fast path's use of b
		x.body.Reset(bytes.Clone(b[end+4 : length]))
		r.Body = &x.body
	}
	return r, length, true
}

// whole is a request with its parts, in one piece of memory.
type whole struct {
	request http.Request
	url     url.URL
	body    body
	values  [10]string // room for the values of the usual number of fields
}

type body struct{ bytes.Reader }

func (*body) Close() error { return nil }

// largeBody owns the bytes that it reads. It does not say that they are in memory, so that a
// handler with a bound on the memory for bodies counts what it reads of it.
type largeBody struct{ in bytes.Reader }

func (b *largeBody) Read(p []byte) (int, error) { return b.in.Read(p) }

func (*largeBody) Close() error { return nil }

// bufferSize is the size of the buffer of a connection, in bytes.
const bufferSize = 4 << 10

// mostBody is the largest body that the fast path reads, in bytes.
const mostBody = 64 << 10

// readHead parses a head whose lines all end in CRLF, without the empty line.
func readHead(bare *http.Request, head string) (x *whole, size int, ok bool) {
	line, rest, _ := strings.Cut(head, "\r\n")
	method, target, _ := strings.Cut(line, " ")
	target, ok = strings.CutSuffix(target, " HTTP/1.1")
	if !ok || !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") {
		return nil, 0, false
	}
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return nil, 0, false
	}
	x = new(whole)
	if !readTarget(&x.url, target) {
		return nil, 0, false
	}
	r := &x.request
	*r = *bare
	r.Method, r.URL, r.RequestURI, r.Header = method, &x.url, target, make(http.Header, 8)
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	values := x.values[:0]
	if n := strings.Count(rest, "\n"); n > len(x.values) {
		values = make([]string, 0, n)
	}
	size = -1
	for rest != "" {
		var name, value string
		if name, value, rest, ok = h1.ReadField(rest); !ok {
			return nil, 0, false
		}
		switch name {
		case "Connection":
			if !strings.EqualFold(value, "keep-alive") {
				return nil, 0, false
			}
		case "Transfer-Encoding", "Expect", "Upgrade", "Trailer", "Te", "Proxy-Connection", "Keep-Alive", "Http2-Settings", "Pragma":
			return nil, 0, false
		case "Host":
			if r.Host != "" || value == "" || !ofHost.Has(value) {
				return nil, 0, false
			}
			r.Host = value
			continue
		case "Content-Length":
			n, err := strconv.Atoi(value)
			if err != nil || size >= 0 || n < 0 || n > mostBody || value[0] == '+' || value[0] == '-' {
				return nil, 0, false
			}
			size = n
		}
		values = h1.AddField(r.Header, name, value, values)
	}
	if r.Host == "" {
		return nil, 0, false
	}
	r.ContentLength = int64(max(size, 0))
	return x, max(size, 0), true
}

const (
	// pathBytes and queryBytes are the bytes that stand for themselves.
	pathBytes  = h1.Alphanumeric + "-._~/"
	queryBytes = pathBytes + "=&%+,:;@!$'()*?"
)

var (
	ofPath  = h1.BytesOf(pathBytes)
	ofQuery = h1.BytesOf(queryBytes)
	ofHost  = h1.BytesOf(h1.Alphanumeric + ".:-[]_")
)

// readTarget sets *u to the URL of a path and query. It returns false if something in the path has
// to be decoded.
func readTarget(u *url.URL, target string) bool {
	path, query, asked := strings.Cut(target, "?")
	if !ofPath.Has(path) || !ofQuery.Has(query) {
		return false
	}
	u.Path, u.RawQuery, u.ForceQuery = path, query, asked && query == ""
	return true
}
