package httpidem

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
)

// capture is the ResponseWriter of a guarded handler. It holds the answer back until it is stored.
// An answer that was flushed, or that exceeds the limit, is sent as it comes, except for its last
// byte. Errors of the client's connection do not reach the handler, whose work goes on.
//
// It has no Unwrap, so that a handler cannot bypass it: http.ResponseController uses its methods.
type capture struct {
	m *Middleware
	w http.ResponseWriter
	r *http.Request

	attempt      *retrysafe.Attempt
	innerRequest *http.Request // the request that the handler got
	detached     bool          // other code finishes the attempt

	// guards the rest against goroutines that outlive the handler; not needed once closed
	mu sync.Mutex

	outerHeader    http.Header // what outer handlers had set
	header         http.Header // the handler's
	status         int
	outcome        string // the handler's Idempotency-Outcome
	wroteHead      bool
	closed         bool  // the handler has returned
	declaredLength int64 // Content-Length of the handler; -1: none
	body           *buffer
	size           int64
	overLimitHash  hash.Hash // of a body over the limit, whose beginning has been dropped
	streaming      bool
	hijacked       bool
	held           []byte // the last byte, while streaming
	heldByte       [1]byte
	head           *buffer // the stored head, once made
	headCut        bool    // the head was too large
}

// newCapture returns a capture for one request. It is not reused: a goroutine of
// the handler may outlive it and still write.
func newCapture(m *Middleware, w http.ResponseWriter, r *http.Request) *capture {
	c := &capture{m: m, w: w, r: r, declaredLength: -1, body: newBuffer()}
	if outer := w.Header(); len(outer) > 0 {
		c.outerHeader, c.header = maps.Clone(outer), outer.Clone()
	} else {
		c.header = make(http.Header, 8)
	}
	return c
}

// closeAfterCrash does the work of close for a handler that did not return. Goroutines of the
// handler can no longer write, and an outer handler that answers in its place finds the fields as
// they were.
func (c *capture) closeAfterCrash() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if !c.streaming && !c.hijacked {
		c.restoreHeader()
	}
}

// Header returns the handler's fields. As with net/http, changes after WriteHeader have no effect.
func (c *capture) Header() http.Header { return c.header }

// TakeHeader makes h the handler's fields, so that a proxy need not copy those of its answer. It
// returns false if there are fields already. The caller must not use h afterwards.
func (c *capture) TakeHeader(h http.Header) bool {
	if len(c.header) > 0 || c.wroteHead {
		return false
	}
	c.header = h
	return true
}

// WriteHeader records the status and the current fields. It sends 1xx at once.
func (c *capture) WriteHeader(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.writeHeader(status)
	}
}

func (c *capture) writeHeader(status int) {
	if status < 100 || status > 999 {
		panic("httpidem: invalid status " + strconv.Itoa(status)) // as net/http does
	}
	if c.wroteHead {
		return
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		outer := c.w.Header()
		saved := maps.Clone(outer)
		maps.Copy(outer, c.header)
		c.w.WriteHeader(status)
		clear(outer)
		maps.Copy(outer, saved)
		return
	}
	c.wroteHead, c.status = true, status
	c.outcome = c.header.Get(headerOutcome)
	if v := c.header["Content-Length"]; len(v) == 1 {
		if n, err := strconv.ParseInt(v[0], 10, 64); err == nil && n >= 0 {
			c.declaredLength = n
		}
	}
	outer := c.w.Header()
	clear(outer)
	for name, values := range c.header {
		if name != headerOutcome && name != "Content-Length" {
			outer[name] = values
		}
	}
	if _, set := outer["Date"]; !set {
		now := time.Now()
		date := lastDate.Load()
		if date == nil || date.unix != now.Unix() {
			date = &dateField{now.Unix(), []string{now.UTC().Format(http.TimeFormat)}}
			lastDate.Store(date)
		}
		outer["Date"] = date.values
	}
}

// lastDate is the last Date that was sent; it changes once a second.
var lastDate atomic.Pointer[dateField]

type dateField struct {
	unix   int64
	values []string
}

// Write adds to the body. It never returns an error of the client's connection.
func (c *capture) Write(p []byte) (int, error) { return writeBody(c, p) }

// WriteString is like Write.
func (c *capture) WriteString(s string) (int, error) { return writeBody(c, s) }

func writeBody[S []byte | string](c *capture, p S) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed { // another request may already use the memory
		return 0, http.ErrHandlerTimeout
	}
	if c.hijacked {
		return 0, http.ErrHijacked
	}
	if !c.wroteHead {
		c.writeHeader(http.StatusOK)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if !allowsBody(c.status) {
		return 0, http.ErrBodyNotAllowed
	}
	n := len(p)
	if c.declaredLength >= 0 && c.size+int64(n) > c.declaredLength {
		return 0, http.ErrContentLength
	}
	c.size += int64(n)
	if c.overLimitHash == nil {
		c.body.b = append(c.body.b, p...)
		if c.streaming {
			c.sendAllButLast(c.body.b[len(c.body.b)-n:])
		}
		if c.size > c.m.bodyLimit {
			c.stopKeepingBody()
		}
		return n, nil
	}
	part := []byte(p)
	c.overLimitHash.Write(part)
	c.sendAllButLast(part)
	return n, nil
}

func allowsBody(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// stopKeepingBody stops keeping the body: from here on it only computes the digest.
func (c *capture) stopKeepingBody() {
	c.startStreaming()
	c.overLimitHash = sha256.New()
	c.overLimitHash.Write(c.body.b)
	c.body.b = c.body.b[:0]
}

// startStreaming begins to send. The field for an unconfirmed answer becomes a trailer.
func (c *capture) startStreaming() {
	if c.streaming {
		return
	}
	c.streaming = true
	c.sniffContentType()
	c.makeHead() // before outer handlers see and change the head
	h := c.w.Header()
	h.Add("Trailer", headerStored)
	if c.declaredLength >= 0 && c.r.ProtoMajor >= 2 {
		// HTTP/1.1 allows no trailers together with a Content-Length
		h["Content-Length"] = []string{strconv.FormatInt(c.declaredLength, 10)}
	}
	c.w.WriteHeader(c.status)
	c.sendAllButLast(c.body.b)
}

// sendAllButLast sends the byte that was held, and p without its last byte, which is held next.
func (c *capture) sendAllButLast(p []byte) {
	if len(p) == 0 {
		return
	}
	if len(c.held) > 0 {
		_, _ = c.w.Write(c.held)
	}
	last := len(p) - 1
	if last > 0 {
		_, _ = c.w.Write(p[:last])
	}
	c.heldByte[0] = p[last]
	c.held = c.heldByte[:]
}

// sniffContentType sets the content type as net/http would, so that the first answer and the replay
// have the same.
func (c *capture) sniffContentType() {
	h := c.w.Header()
	if _, set := h["Content-Type"]; set || len(c.body.b) == 0 || h.Get("Content-Encoding") != "" {
		return
	}
	h["Content-Type"] = []string{http.DetectContentType(c.body.b)}
}

// close ends the handler's part.
func (c *capture) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.hijacked {
		return
	}
	if !c.wroteHead {
		c.writeHeader(http.StatusOK)
	}
	if !c.streaming {
		c.sniffContentType()
	}
}

// isWhole reports whether the body has the length that the handler declared.
func (c *capture) isWhole() bool {
	return c.declaredLength < 0 || c.declaredLength == c.size || !allowsBody(c.status)
}

// makeHead makes the head as it is stored.
func (c *capture) makeHead() {
	c.head = newBuffer()
	c.head.b = appendHead(c.head.b, c.status, c.w.Header(), c.outerHeader, c.m.o.Answer.KeepCookies)
	if len(c.head.b) <= maxHead {
		return
	}
	c.headCut = true
	h := make(http.Header, 1)
	if v := c.w.Header()["Location"]; len(v) > 0 && len(v[0]) < maxHead/2 {
		h["Location"] = v[:1]
	}
	c.head.b = appendHead(c.head.b[:0], c.status, h, nil, false)
}

// storedAnswer returns the answer to store. It uses memory of the capture.
func (c *capture) storedAnswer() retrysafe.Answer {
	if c.hijacked {
		return retrysafe.Answer{Codec: codecName} // what was sent on the connection is not known
	}
	if c.m.o.Answer.Keep == KeepNever {
		return c.statusLineAnswer()
	}
	if c.head == nil {
		c.makeHead()
	}
	if allowsBody(c.status) {
		if trailer := c.trailer(); len(trailer) > 0 {
			c.appendTrailer(trailer)
		}
	}
	if c.overLimitHash == nil && c.isWhole() && !c.headCut {
		c.head.b = append(c.head.b, c.body.b...)
		return retrysafe.Answer{Codec: codecName, Body: c.head.b, Kept: true}
	}
	a := retrysafe.Answer{Codec: codecName, Body: c.head.b, Size: c.size}
	if c.overLimitHash != nil {
		c.overLimitHash.Sum(a.Digest[:0])
	} else {
		a.Digest = sha256.Sum256(c.body.b)
	}
	return a
}

// statusLineAnswer returns what is stored under KeepNever: the status line. It has no digest, since
// the digest of a short answer can be guessed, and its size is that of the line.
func (c *capture) statusLineAnswer() retrysafe.Answer {
	line := appendHead(nil, c.status, nil, nil, false)
	return retrysafe.Answer{Codec: codecName, Body: line, Size: int64(len(line))}
}

// sendAnswer sends the answer, or the rest of it, to the client.
func (c *capture) sendAnswer(unconfirmed bool) {
	if c.hijacked {
		return
	}
	h := c.w.Header()
	if unconfirmed {
		h[headerStored] = []string{"unconfirmed"} // a trailer if the head has been sent
	}
	trailer := c.trailer()
	if c.streaming {
		if !c.isWhole() {
			panic(http.ErrAbortHandler) // so that the client does not take the answer for complete
		}
		if len(c.held) > 0 {
			_, _ = c.w.Write(c.held)
		}
		maps.Copy(h, trailer)
		return
	}
	switch {
	case len(trailer) > 0: // HTTP/1.1 allows no trailer together with a length
	case allowsBody(c.status):
		length := c.size
		if !c.isWhole() {
			length = c.declaredLength
		}
		h["Content-Length"] = []string{strconv.FormatInt(length, 10)}
	case c.declaredLength >= 0 && c.status == http.StatusNotModified:
		h["Content-Length"] = []string{strconv.FormatInt(c.declaredLength, 10)}
	}
	c.w.WriteHeader(c.status)
	if len(c.body.b) > 0 {
		_, _ = c.w.Write(c.body.b)
	}
	maps.Copy(h, trailer)
}

// restoreHeader removes the handler's fields, and puts back those of outer handlers.
func (c *capture) restoreHeader() {
	h := c.w.Header()
	clear(h)
	maps.Copy(h, c.outerHeader)
}

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
	names, connection := space[:0], h["Connection"]
	for name := range h {
		proper := http.CanonicalHeaderKey(name) // handlers may write any name into the map
		if notStored[proper] || !cookies && proper == "Set-Cookie" || !IsToken(name) || len(connection) > 0 && listsToken(connection, name) {
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
			b = append(append(b, fieldValue(v)...), "\r\n"...)
		}
	}
	return append(b, "\r\n"...)
}

// fieldValue returns a value as net/http sends it: without surrounding white space, and with line
// breaks as spaces.
func fieldValue(v string) string { return lineBreaks.Replace(strings.Trim(v, " \t\r\n")) }

var lineBreaks = strings.NewReplacer("\r", " ", "\n", " ")

// listsToken reports whether a field whose value is a list of tokens has one that is equal to name.
func listsToken(lines []string, name string) bool {
	for _, line := range lines {
		for token := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(token), name) {
				return true
			}
		}
	}
	return false
}

// storedMessage is a parsed stored answer. names[i] and values[i] belong together.
type storedMessage struct {
	status        int
	names, values []string
	trailer       http.Header // nil: none
	body          []byte
}

var errMessage = errors.New("the stored answer is damaged")

// parse parses an appendHead followed by a body. It does not copy the body.
func (m *storedMessage) parse(b []byte) error {
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

func (m *storedMessage) get(name string) string {
	if i := slices.Index(m.names, name); i >= 0 {
		return m.values[i]
	}
	return ""
}

// setHeader sets the fields on h, with the values of one name together. If the status allows a
// body, it sets Content-Length, or else announces the trailers: HTTP/1.1 has only one of both.
func (m *storedMessage) setHeader(h http.Header) {
	for i := 0; i < len(m.names); {
		j := i + 1
		for j < len(m.names) && m.names[j] == m.names[i] {
			j++
		}
		h[m.names[i]] = m.values[i:j:j]
		i = j
	}
	switch {
	case !allowsBody(m.status):
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

// trailer returns the fields that the handler has set after its head, under names that it announced
// or with [http.TrailerPrefix].
func (c *capture) trailer() http.Header {
	var t http.Header
	set := func(name string, values []string) {
		if t == nil {
			t = http.Header{}
		}
		t[name] = values
	}
	for _, line := range c.header["Trailer"] {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if v, ok := c.header[name]; ok && !notStored[name] {
				set(name, v)
			}
		}
	}
	for name, v := range c.header {
		if trailer, ok := strings.CutPrefix(name, http.TrailerPrefix); ok && !notStored[http.CanonicalHeaderKey(trailer)] {
			set(name, v)
		}
	}
	return t
}

// appendTrailer appends the trailers to the stored head, as its last fields: "Trailer: X-Sum: 4".
// Nothing else is stored under that name.
func (c *capture) appendTrailer(trailer http.Header) {
	end := len(c.head.b) - len("\r\n")
	b := c.head.b[:end]
	for _, name := range slices.Sorted(maps.Keys(trailer)) {
		proper := http.CanonicalHeaderKey(strings.TrimPrefix(name, http.TrailerPrefix))
		if notStored[proper] || !c.m.o.Answer.KeepCookies && proper == "Set-Cookie" || !IsToken(proper) {
			continue
		}
		for _, v := range trailer[name] {
			b = append(append(append(b, storedTrailer...), proper...), ": "...)
			b = append(append(b, fieldValue(v)...), "\r\n"...)
		}
	}
	if b = append(b, "\r\n"...); len(b) > maxHead {
		copy(c.head.b[end:], "\r\n") // the trailers may have been written over its end
		c.headCut = true
		return
	}
	c.head.b = b
}

// storedTrailer begins the line of a trailer in a stored head.
const storedTrailer = "Trailer: "

// addTrailer adds "X-Sum: 4".
func (m *storedMessage) addTrailer(line string) {
	name, value, ok := strings.Cut(line, ": ")
	name = http.CanonicalHeaderKey(name)
	if !ok || !IsToken(name) || notStored[name] {
		return
	}
	if m.trailer == nil {
		m.trailer = http.Header{}
	}
	m.trailer[name] = append(m.trailer[name], value)
}

// StoredAnswer returns an answer in the stored format, for an operator who resolves a request in
// doubt and knows its answer. Duplicates of the request then get it.
func StoredAnswer(status int, h http.Header, body []byte) (retrysafe.Answer, error) {
	if status < 200 || status > 599 {
		return retrysafe.Answer{}, fmt.Errorf("httpidem: status %d is no answer; use 200 to 599", status)
	}
	for name, values := range h {
		if slices.ContainsFunc(append(values[:len(values):len(values)], name), hasControl) {
			return retrysafe.Answer{}, fmt.Errorf("httpidem: the field %q has a control character, such as a line break", name)
		}
	}
	msg := append(appendHead(nil, status, h, nil, false), body...)
	if len(msg) > retrysafe.MaxStored {
		return retrysafe.Answer{}, fmt.Errorf("httpidem: the answer has %d bytes, at most %d are kept", len(msg), retrysafe.MaxStored)
	}
	return retrysafe.Answer{Codec: codecName, Body: msg, Kept: true}, nil
}

// ReadStored returns what a stored answer of this package has, for an operator who looks at it.
// Trailers are in h with [http.TrailerPrefix]. The header and the body must not be changed. The
// error says that the answer is none of this package, or was not kept.
func ReadStored(a retrysafe.Answer) (status int, h http.Header, body []byte, err error) {
	if a.Codec != codecName || !a.Kept {
		return 0, nil, nil, fmt.Errorf("httpidem: this is no stored answer of HTTP (codec %q, kept %t)", a.Codec, a.Kept)
	}
	var m storedMessage
	if err := m.parse(a.Body); err != nil {
		return 0, nil, nil, err
	}
	h = make(http.Header, len(m.names))
	for i, name := range m.names {
		h[name] = append(h[name], m.values[i])
	}
	for name, values := range m.trailer {
		h[http.TrailerPrefix+name] = values
	}
	return m.status, h, m.body, nil
}

// hasControl reports whether a name or a value of a field has characters that end it.
func hasControl(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// The methods that http.ResponseController looks for.

// Flush sends what has been written, except for the last byte.
func (c *capture) Flush() { _ = c.FlushError() }

// FlushError is like Flush. It returns an error if the server cannot flush, but not if the client
// has gone.
func (c *capture) FlushError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return http.ErrHandlerTimeout
	}
	if !c.wroteHead {
		c.writeHeader(http.StatusOK)
	}
	c.startStreaming()
	err := http.NewResponseController(c.w).Flush()
	if gone := c.r.Context().Err() != nil; gone {
		return nil
	}
	return err
}

// Hijack gives the connection to the handler. What the handler sends on it is not stored: when the
// handler returns, the key is completed without an answer.
func (c *capture) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, http.ErrHandlerTimeout
	}
	if c.wroteHead { // what was written before goes first
		c.startStreaming()
		_, _ = c.w.Write(c.held)
		c.held = nil
	}
	conn, rw, err := http.NewResponseController(c.w).Hijack()
	c.hijacked = c.hijacked || err == nil
	return conn, rw, err
}

// ReadFrom implements io.ReaderFrom, so that io.Copy allocates no buffer.
func (c *capture) ReadFrom(src io.Reader) (int64, error) {
	b := newBuffer()
	defer b.free()
	return io.CopyBuffer(struct{ io.Writer }{c}, src, b.b[:cap(b.b)])
}

// SetReadDeadline implements a method that [http.ResponseController] uses.
func (c *capture) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(c.w).SetReadDeadline(t)
}

// SetWriteDeadline implements a method that [http.ResponseController] uses.
func (c *capture) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(c.w).SetWriteDeadline(t)
}

// EnableFullDuplex implements a method that [http.ResponseController] uses.
func (c *capture) EnableFullDuplex() error {
	return http.NewResponseController(c.w).EnableFullDuplex()
}

// ExposedHeaders returns the response headers that a page of another origin must be allowed to read
// (Access-Control-Expose-Headers), so that it recognises a replay and knows when to retry.
func ExposedHeaders() []string {
	return []string{headerReplayed, headerStored, "Retry-After", "Location", "Link"}
}
