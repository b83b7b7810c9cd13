package fingerprint

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
)

// version is the first byte of a sum. A change of the form needs a new version, since old sums are
// stored.
const version = 1

// The kinds of body. The kind is part of the form, so that bodies of different kinds never have the
// same form.
const (
	kindNone      = 'n'
	kindJSON      = 'j'
	kindForm      = 'f'
	kindMultipart = 'm'
	kindBytes     = 'b'
)

// Size is the length of a sum in bytes: its version and a SHA-256.
const Size = 1 + sha256.Size

// formWriter builds the form of one request. Writers are reused, so that a small body allocates no
// memory.
type formWriter struct {
	*Compiled
	out     []byte // the form so far
	scratch []byte
	members []member
	params  []param
}

var writers = sync.Pool{New: func() any { return new(formWriter) }}

// mostReusedSpace is the largest buffer that is reused: one large request must not keep its memory
// for ever.
const mostReusedSpace = 64 << 10

func (w *formWriter) release() {
	w.Compiled = nil
	w.clearParams()
	if cap(w.out) <= mostReusedSpace && cap(w.scratch) <= mostReusedSpace && cap(w.members) <= mostReusedSpace/16 && cap(w.params) <= mostReusedSpace/64 {
		writers.Put(w)
	}
}

// clearParams drops the parameters, which refer to a request's memory.
func (w *formWriter) clearParams() {
	clear(w.params)
	w.params = w.params[:0]
}

// Sum compiles the rule and calls [Compiled.Sum]. Compile a rule that is used more than once.
func (r Rule) Sum(contentType, query string, body []byte) ([]byte, error) {
	c, err := r.Compile()
	if err != nil {
		return nil, err
	}
	return c.Sum(contentType, query, body)
}

// Sum returns the digest of a request: [Size] bytes, the version first; docs/formats.md has the
// form. contentType is the header's value, query is the query as sent, without "?", and body is the
// body without any Content-Encoding.
//
//   - application/json and types that end in +json: by value, so key order, white space and escapes
//     do not matter. Sum refuses duplicate keys in an object, invalid UTF-8, half surrogate pairs,
//     anything after the value, and numbers of 1e309 and more or below 1e-324.
//   - application/x-www-form-urlencoded, and the query: parameters by name; the order of the values
//     of one name matters.
//   - multipart/form-data: parts by name, each with its file name, content type, transfer encoding
//     and the digest of its bytes; the boundary does not matter.
//   - anything else: the bytes. An empty body is the same with every content type.
//
// The media type also counts, without its parameters. Errors are [ErrMalformed], [ErrTooLarge] and
// [ErrNothingKept].
func (c *Compiled) Sum(contentType, query string, body []byte) ([]byte, error) {
	w := writers.Get().(*formWriter) //nolint:errcheck // the pool has nothing else
	defer w.release()
	if err := w.writeForm(c, contentType, query, body); err != nil {
		return nil, err
	}
	digest := sha256.Sum256(w.out)
	sum := make([]byte, Size)
	sum[0] = version
	copy(sum[1:], digest[:])
	return sum, nil
}

// Form returns what Sum hashes, to find out in a test or by hand why two requests differ. It
// contains the values of the request; do not log it.
func (c *Compiled) Form(contentType, query string, body []byte) ([]byte, error) {
	w := writers.Get().(*formWriter) //nolint:errcheck // the pool has nothing else
	defer w.release()
	if err := w.writeForm(c, contentType, query, body); err != nil {
		return nil, err
	}
	return bytes.Clone(w.out), nil
}

func (w *formWriter) writeForm(c *Compiled, contentType, query string, body []byte) error {
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
	inQuery, err := w.writeURLEncoded("query", query, nil)
	if err != nil {
		return err
	}
	inBody, err := w.writeBody(contentType, body)
	if err != nil {
		return err
	}
	if !inQuery && !inBody && !c.keepAll {
		return ErrNothingKept
	}
	return nil
}

// writeBody reports whether anything of the body is kept.
func (w *formWriter) writeBody(contentType string, body []byte) (kept bool, err error) {
	if len(body) == 0 {
		w.out = append(w.out, kindNone)
		return false, nil
	}
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	kind := bodyKind(media)
	w.out = append(w.out, kind)
	w.writeText(media)
	switch kind {
	case kindJSON:
		return w.writeJSON(body)
	case kindForm:
		return w.writeURLEncoded("form body", string(body), w.paths)
	case kindMultipart:
		return w.writeMultipart(contentType, body)
	default:
		w.out = append(w.out, body...)
		return true, nil
	}
}

// IsJSON reports whether a body of this media type, in lower case and without parameters, is JSON.
func IsJSON(media string) bool { return bodyKind(media) == kindJSON }

func bodyKind(media string) byte {
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

// writeText writes a text after its length, so that its end is unambiguous.
func (w *formWriter) writeText(s string) {
	w.out = binary.AppendUvarint(w.out, uint64(len(s)))
	w.out = append(w.out, s...)
}
