package check

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
)

// operation is one thing that a client wants to be done: a request with its key. Its duplicates are
// the same operation sent again.
type operation struct {
	request Request
	keys    []string // the lines of the key's field; none for a request without a key
	// prefix stands before the names of the variables that are shown for the fields of prefixed:
	// these carry other credentials than those of the first caller.
	prefix   string
	prefixed []string
}

// placeholder is replaced by a token that is new for each operation.
const placeholder = "{{unique}}"

// operationOf makes an operation of r with a new key.
func (s *session) operationOf(r Request) operation {
	return operation{request: fillPlaceholders(r), keys: []string{s.newKey()}}
}

func (s *session) newKey() string {
	if s.target.NewKey != nil {
		return s.target.NewKey()
	}
	return newUUID()
}

// newOperation makes an operation of the target's request.
func (s *session) newOperation() operation { return s.operationOf(s.target.Request) }

// withChange returns op with another request, under the same key.
func (op operation) withChange(change func(r *Request)) operation {
	op.request = op.request.Clone()
	change(&op.request)
	return op
}

// withKeys returns op with other lines of the key's field.
func (op operation) withKeys(lines ...string) operation {
	op.keys = lines
	return op
}

// asCaller returns op with the credentials of another caller in the fields names. Their variables
// begin with prefix where op is shown.
func (op operation) asCaller(prefix string, names []string, change func(r *Request)) operation {
	op = op.withChange(change)
	op.prefix, op.prefixed = prefix, names
	return op
}

// shellVariables returns the variables of the shell that stand for credentials. named are fields
// that carry some although their names do not say so.
func (op operation) shellVariables(named []string) func(name string) (variable string, ok bool) {
	return func(name string) (string, bool) {
		variable, ok := secretVariable(name, named)
		if ok && slices.ContainsFunc(op.prefixed, func(p string) bool { return strings.EqualFold(p, name) }) {
			variable = op.prefix + variable
		}
		return variable, ok
	}
}

// buildRequest returns the request as it is sent.
func (s *session) buildRequest(op *operation) *Request {
	r := op.request.Clone()
	name := http.CanonicalHeaderKey(s.target.KeyHeader)
	r.Header.Del(name)
	if len(op.keys) > 0 {
		r.Header[name] = op.keys
	}
	return &r
}

// fillPlaceholders returns a copy of r with a token in each place of the placeholder.
func fillPlaceholders(r Request) Request {
	r = r.Clone()
	token := newToken(8)
	r.URL = strings.ReplaceAll(r.URL, placeholder, token)
	r.Body = bytes.ReplaceAll(r.Body, []byte(placeholder), []byte(token))
	for _, values := range r.Header {
		for i := range values {
			values[i] = strings.ReplaceAll(values[i], placeholder, token)
		}
	}
	return r
}

// newToken returns n random bytes in hexadecimal digits.
func newToken(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// newUUID returns a random UUID, RFC 9562 section 5.4.
func newUUID() string {
	b := make([]byte, 16)
	rand.Read(b) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	t := hex.EncodeToString(b)
	return t[:8] + "-" + t[8:12] + "-" + t[12:16] + "-" + t[16:20] + "-" + t[20:]
}
