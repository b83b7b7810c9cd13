package reqfield

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// ErrAbsent means that the field is missing or empty. Other errors mean that it cannot be read in
// only one way. No error contains a value.
var ErrAbsent = errors.New("the field is not there, or empty")

// ErrEmpty means that the field is there and is an empty text. It is an ErrAbsent.
var ErrEmpty = fmt.Errorf("%w: an empty text", ErrAbsent)

// Field is the place of a value. The zero Field is no place.
type Field struct {
	text   string
	header string   // canonical
	query  string   // parameter of the query
	path   []string // in a JSON body
	form   bool     // path is one name, which may also be a form field
}

// Parse parses the text form of a field:
//
//	poll          a member of a JSON body, or a field of a form
//	$.order.id    a member of a member of a JSON body
//	/order/id     the same as a JSON pointer (RFC 6901), for names with dots
//	query:poll    a parameter of the query
//	header:X-Id   a field of the head
func Parse(text string) (Field, error) {
	f := Field{text: text}
	kind, name, named := strings.Cut(text, ":")
	switch {
	case named && kind == "header":
		f.header = http.CanonicalHeaderKey(name)
		f.text = "header:" + f.header
		if name == "" || strings.ContainsAny(name, " \t:\"(),/;<=>?@[\\]{}") || slices.Contains(hiddenHeaders, f.header) {
			return Field{}, fmt.Errorf("%q names no header that a field can be in; write it like header:X-Event-Id", text)
		}
		return f, nil
	case named && kind == "query":
		f.query = name
		if name == "" {
			return Field{}, fmt.Errorf("%q names no parameter; write it like query:poll", text)
		}
		return f, nil
	case strings.HasPrefix(text, "/"):
		for part := range strings.SplitSeq(text[1:], "/") {
			f.path = append(f.path, strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~"))
		}
	case strings.HasPrefix(text, "$."):
		f.path = strings.Split(text[2:], ".")
	case named:
		return Field{}, fmt.Errorf("%q is no field: before a colon stands header or query; a name with a colon is written as a JSON pointer, /%s", text, text)
	default:
		f.path, f.form = []string{text}, true
	}
	for _, part := range f.path {
		if part == "" || strings.ContainsAny(part, "[]*") || !utf8.ValidString(part) {
			return Field{}, fmt.Errorf("%q is no field; write it like poll, $.order.id, query:poll or header:X-Id (elements of arrays cannot be named)", text)
		}
	}
	return f, nil
}

// hiddenHeaders are headers that net/http's server does not leave in the header map.
var hiddenHeaders = []string{"Host", "Connection", "Content-Length", "Transfer-Encoding", "Trailer", "Te", "Expect"}

// String returns the text that was parsed.
func (f Field) String() string { return f.text }

// Name returns a name that is the same for all texts of one field.
func (f Field) Name() string {
	if len(f.path) == 0 {
		return f.text
	}
	var b strings.Builder
	for _, part := range f.path {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(part, "~", "~0"), "/", "~1"))
	}
	return b.String()
}

// InHeader reports whether the value is in the header.
func (f Field) InHeader() bool { return f.header != "" }

// InBody reports whether the value is in the body.
func (f Field) InBody() bool { return len(f.path) > 0 }

// InForm reports whether the value may be in the body as a field of a form.
func (f Field) InForm() bool { return f.form }

// Path returns the names of the members in which the value is; nil if it is not in the body.
func (f Field) Path() []string { return slices.Clone(f.path) }

// Of returns the value of the field as text. It returns an error if the field occurs twice, also in
// another spelling that some programs treat as equal: the next program that reads the request may
// take the other one.
func (f Field) Of(in *Request) (string, error) {
	var value string
	var err error
	switch {
	case f.header != "":
		value, err = f.headerValue(in.r.Header)
	case f.query != "":
		value, err = f.queryValue(in)
	default:
		value, err = f.bodyValue(in)
	}
	if err == nil && value == "" {
		err = ErrEmpty
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", f.text, err)
	}
	return value, nil
}

var errTwice = errors.New("the field is there more than once, or beside another spelling of it")

func onlyValue(values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", ErrAbsent
	case 1:
		return values[0], nil
	}
	return "", errTwice
}

// headerValue refuses fields that others may see differently: CGI and its successors treat X_Id
// like X-Id, and a proxy drops the fields that Connection names.
func (f Field) headerValue(h http.Header) (string, error) {
	for name := range h {
		if name != f.header && strings.EqualFold(strings.ReplaceAll(name, "_", "-"), f.header) {
			return "", errTwice
		}
	}
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(name), f.header) {
				return "", errors.New("the header Connection names the field, so that it does not go further")
			}
		}
	}
	return onlyValue(h[f.header])
}

// queryValue refuses a parameter that a form also has: programs differ in which one they take.
func (f Field) queryValue(in *Request) (string, error) {
	if form, err := in.formFields(); err == nil {
		if found, err := valuesOf(form, f.query); err != nil || len(found) > 0 {
			return "", errTwice
		}
	}
	params, err := parsePairs(in.r.URL.RawQuery)
	if err != nil {
		return "", err
	}
	found, err := valuesOf(params, f.query)
	if err != nil {
		return "", err
	}
	return onlyValue(found)
}
