package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// decodeBody reads the body of the request, a JSON object with members of in, each once and spelled
// as there. Package json alone would take the last of two, and names in any case, where a server
// before this one may have looked at the first.
func (c *apiCall) decodeBody(in any) error {
	d := json.NewDecoder(bytes.NewReader(c.body))
	d.DisallowUnknownFields()
	if err := d.Decode(in); err != nil {
		return badRequest("the body cannot be read: " + describeDecodeError(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return badRequest("the body has text after its document")
	}
	if !utf8.Valid(c.body) || loneSurrogate(c.body) {
		return badRequest("the body cannot be read: it has text that is no UTF-8, or half of a surrogate pair")
	}
	return checkMembers(c.body, in)
}

// describeDecodeError says what is wrong with a body, without quoting it: it may have a key.
func describeDecodeError(err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return "it is not JSON, at byte " + strconv.FormatInt(syntax.Offset, 10)
	case errors.As(err, &kind) && kind.Field != "":
		return "its member " + kind.Field + " has the wrong type"
	case errors.As(err, &kind):
		return "it is not an object"
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return "it ends too early"
	}
	return "it has a member that does not belong here; " + prefix + "/openapi.json has those that do"
}

// checkMembers checks the names of an object that was decoded into in, which has no objects in it.
func checkMembers(body []byte, in any) error {
	left := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeOf(in).Elem()) {
		left[textBefore(f.Tag.Get("json"), ",")] = true
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if begin, _ := d.Token(); begin != json.Delim('{') {
		return badRequest("the body cannot be read: it is not an object")
	}
	for d.More() {
		token, _ := d.Token() // the body was decoded before
		name, _ := token.(string)
		free, known := left[name]
		switch {
		case !known:
			return badRequest("the body cannot be read: it has a member that does not belong here; " + prefix + "/openapi.json has those that do")
		case !free:
			return badRequest("the body cannot be read: its member " + name + " is there twice")
		}
		left[name] = false
		var value json.RawMessage
		_ = d.Decode(&value)
	}
	return nil
}

// loneSurrogate reports whether a string of a document has an escape of half a surrogate pair,
// which package json replaces by another character.
func loneSurrogate(document []byte) bool {
	for text := string(document); ; {
		i := strings.IndexByte(text, '\\')
		if i < 0 || i+1 >= len(text) {
			return false
		}
		r := parseEscape(text[i:])
		switch {
		case !utf16.IsSurrogate(r):
			text = text[i+2:]
		case len(text) < i+12 || utf16.DecodeRune(r, parseEscape(text[i+6:])) == utf8.RuneError:
			return true
		default:
			text = text[i+12:]
		}
	}
}

// parseEscape returns the number of an escape such as \u00e9 that text begins with, or -1.
func parseEscape(text string) rune {
	if len(text) < 6 || text[:2] != `\u` {
		return -1
	}
	n, err := strconv.ParseUint(text[2:6], 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
