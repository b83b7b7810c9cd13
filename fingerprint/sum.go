package fingerprint

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
)

// version is the first byte of a sum. A change of the form is a new version, since sums of the old
// one are stored.
const version = 1

// The kinds of body. Each stands in the form, so that no body of one kind is taken for a body of
// another.
const (
	kindNone      = 'n'
	kindJSON      = 'j'
	kindForm      = 'f'
	kindMultipart = 'm'
	kindBytes     = 'b'
)

// Size is the length of a sum in bytes: its version and a SHA-256.
const Size = 1 + sha256.Size

// writer builds the form of one request. Writers are used again, so that a small body costs no
// memory.
type writer struct {
	*Compiled
	out     []byte // the form so far
	scratch []byte
	members []member
	params  []param
}

var writers = sync.Pool{New: func() any { return new(writer) }}

// keptSpace is the largest buffer that is used again: one large request must not hold its memory
// for ever.
const keptSpace = 64 << 10

func (w *writer) free() {
	w.Compiled = nil
	w.noParams()
	if cap(w.out) <= keptSpace && cap(w.scratch) <= keptSpace && cap(w.members) <= keptSpace/16 && cap(w.params) <= keptSpace/64 {
		writers.Put(w)
	}
}

// noParams forgets the parameters, which point into a request.
func (w *writer) noParams() {
	clear(w.params)
	w.params = w.params[:0]
}

// Sum is Compile and the Sum of what it gives; compile a rule that is used more than once.
func (r Rule) Sum(contentType, query string, body []byte) ([]byte, error) {
	c, err := r.Compile()
	if err != nil {
		return nil, err
	}
	return c.Sum(contentType, query, body)
}

// Sum is the digest of a request: [Size] bytes, the version first; docs/formats.md has the form.
// The content type is the header's value, the query is as sent, without "?", and the body is
// decoded of any Content-Encoding.
//
//   - application/json and types that end in +json: by value, so key order, white space and escapes
//     do not matter. Refused are keys that stand twice in an object, bad UTF-8, half surrogate
//     pairs, anything behind the value, and numbers of 1e309 and more or below 1e-324.
//   - application/x-www-form-urlencoded, and the query: parameters by name; the order of the values
//     of one name matters.
//   - multipart/form-data: parts by name, each with its file name, content type, transfer encoding
//     and the digest of its bytes; the boundary does not matter.
//   - anything else: the bytes. An empty body is the same with every content type.
//
// The media type counts too, without its parameters. Errors are [ErrMalformed], [ErrTooLarge] and
// [ErrNothingKept].
func (c *Compiled) Sum(contentType, query string, body []byte) ([]byte, error) {
	w := writers.Get().(*writer) //nolint:errcheck // the pool has nothing else
	defer w.free()
	if err := w.form(c, contentType, query, body); err != nil {
		return nil, err
	}
	digest := sha256.Sum256(w.out)
	sum := make([]byte, Size)
	sum[0] = version
	copy(sum[1:], digest[:])
	return sum, nil
}

// Form is what Sum hashes: to see in a test or at a desk why two requests differ. It has the values
// of the request; keep it out of logs.
func (c *Compiled) Form(contentType, query string, body []byte) ([]byte, error) {
	w := writers.Get().(*writer) //nolint:errcheck // the pool has nothing else
	defer w.free()
	if err := w.form(c, contentType, query, body); err != nil {
		return nil, err
	}
	return bytes.Clone(w.out), nil
}

func (w *writer) form(c *Compiled, contentType, query string, body []byte) error {
	w.Compiled, w.out, w.members = c, w.out[:0], w.members[:0]
	if len(query)+len(body) > c.maxBytes {
		return fmt.Errorf("%w: %d bytes, at most %d are read", ErrTooLarge, len(query)+len(body), c.maxBytes)
	}
	numbers := byte('v')
	if c.asWritten {
		numbers = 'w'
	}
	w.out = append(w.out, "retrysafe request 1\n"...)
	w.out = append(w.out, numbers)
	inQuery, err := w.urlencoded("query", query, nil)
	if err != nil {
		return err
	}
	inBody, err := w.body(contentType, body)
	if err != nil {
		return err
	}
	if !inQuery && !inBody && !c.keepAll {
		return ErrNothingKept
	}
	return nil
}

// body tells whether anything of the body is kept.
func (w *writer) body(contentType string, body []byte) (kept bool, err error) {
	if len(body) == 0 {
		w.out = append(w.out, kindNone)
		return false, nil
	}
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	kind := kindOf(media)
	w.out = append(w.out, kind)
	w.text(media)
	switch kind {
	case kindJSON:
		return w.json(body)
	case kindForm:
		return w.urlencoded("form body", string(body), w.paths)
	case kindMultipart:
		return w.multipart(contentType, body)
	default:
		w.out = append(w.out, body...)
		return true, nil
	}
}

func kindOf(media string) byte {
	switch {
	case media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json"):
		return kindJSON
	case media == "application/x-www-form-urlencoded":
		return kindForm
	case media == "multipart/form-data":
		return kindMultipart
	default:
		return kindBytes
	}
}

// text writes a text behind its length, so that where it ends is certain.
func (w *writer) text(s string) {
	w.out = binary.AppendUvarint(w.out, uint64(len(s)))
	w.out = append(w.out, s...)
}
