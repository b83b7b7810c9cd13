package httpsig

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// message is a request as a signature covers it.
type message struct {
	requestTarget
	host   string // as sent
	header http.Header
	length int64 // of the body; negative: unknown
}

var (
	errAbsent    = errors.New("it is not in the request")
	errSeveral   = errors.New("it stands in the request more than once; send one line, so that no proxy can split or join it")
	errSpaces    = errors.New("its value has spaces around it")
	errCharacter = errors.New("its value has a character that is not printable ASCII")
	errComponent = errors.New("a signature of this package cannot cover it")
)

// componentValue returns the value of a component (RFC 9421, section 2).
func (m *message) componentValue(name string) (string, error) {
	var v string
	switch name {
	case "@method":
		v = m.method
	case "@scheme":
		v = m.scheme
	case "@authority":
		v = m.authority
	case "@path":
		v = m.path
	case "@query":
		if v = m.query; v == "" {
			v = "?" // no query and an empty one are the same: section 2.2.7
		}
	case "@target-uri":
		v = m.scheme + "://" + m.authority + m.path + m.query
	default:
		lines, err := m.fieldLines(name)
		switch {
		case err != nil:
			return "", err
		case len(lines) == 0:
			return "", errAbsent
		case len(lines) > 1:
			return "", errSeveral
		}
		if v = lines[0]; strings.Trim(v, " \t") != v {
			// it would be signed without them, and the handler would see them
			return "", errSpaces
		}
	}
	for i := range len(v) { // a line feed would start another component
		if c := v[i]; c != '\t' && (c < 0x20 || c > 0x7E) {
			return "", errCharacter
		}
	}
	return v, nil
}

// fieldLines returns the lines of a field. net/http keeps some fields outside Header.
func (m *message) fieldLines(name string) ([]string, error) {
	switch name {
	case "host":
		return []string{m.host}, nil
	case "content-length":
		if m.length < 0 {
			return nil, nil
		}
		return []string{strconv.FormatInt(m.length, 10)}, nil
	case "transfer-encoding", "trailer", "connection", "te", "signature", "signature-input":
		return nil, errComponent
	}
	if !isFieldName(name) {
		return nil, errComponent
	}
	return m.header[textproto.CanonicalMIMEHeaderKey(name)], nil
}

// hasField reports whether the request has a field.
func (m *message) hasField(name string) bool {
	lines, err := m.fieldLines(name)
	return err == nil && len(lines) > 0
}

// isFieldName reports whether name is a field name as signatures spell it: a token of RFC 9110 in
// lower case.
func isFieldName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return name != ""
}

// derivedComponents are the components that are not fields.
var derivedComponents = []string{"@method", "@scheme", "@authority", "@path", "@query", "@target-uri"}

// checkComponents reports what is wrong with configured names.
func checkComponents(names []string) error {
	for _, name := range names {
		if _, err := (&message{}).fieldLines(name); err != nil && !slices.Contains(derivedComponents, name) {
			return fmt.Errorf("httpsig: %q is nothing that a signature can cover; write fields in lower case, and see docs/httpsig.md for the rest", name)
		}
	}
	return nil
}

// appendBase appends the signature base (RFC 9421, section 2.5), which is what is signed. params is
// the value of @signature-params.
func (m *message) appendBase(b []byte, names []string, params string) ([]byte, error) {
	for _, name := range names {
		v, err := m.componentValue(name)
		if err != nil {
			return nil, &componentError{name, err}
		}
		b = append(append(append(append(append(b, '"'), name...), `": `...), v...), '\n')
	}
	return append(append(b, `"@signature-params": `...), params...), nil
}

// componentError says which component is wrong. Its message includes the name, which may be any
// name of a field.
type componentError struct {
	name string
	err  error
}

func (e *componentError) Error() string {
	if !isFieldName(strings.TrimPrefix(e.name, "@")) || len(e.name) > 64 {
		return "a component: " + e.err.Error()
	}
	return e.name + ": " + e.err.Error()
}

func (e *componentError) Unwrap() error { return e.err }
