package fingerprint

import (
	"encoding/binary"
	"net/url"
	"slices"
	"strings"
)

// param is one field of a query or a form.
type param struct {
	name, value string
	// For a part of a multipart body: its file name, content type and transfer encoding, and
	// whether it has a file name.
	file, media, encoding string
	isFile                bool
}

// writeURLEncoded writes the parameters of a query or a form. The order of different names does not
// count; the order of the values of one name does.
func (w *formWriter) writeURLEncoded(where, text string, paths *pathNode) (kept bool, err error) {
	if err := w.readParams(where, text, paths); err != nil {
		return false, err
	}
	w.out = binary.AppendUvarint(w.out, uint64(len(w.params)))
	for _, p := range w.params {
		w.writeText(p.name)
		w.writeText(p.value)
	}
	return len(w.params) > 0, nil
}

// readParams fills w.params with the parameters that count, sorted by name. A parameter without "="
// has an empty value, "+" is a space as usual, and ";" is an ordinary character.
func (w *formWriter) readParams(where, text string, paths *pathNode) error {
	w.clearParams()
	for at, rest := 0, text; rest != ""; at = len(text) - len(rest) {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			// not err: it contains what was sent
			return malformedError(where, at, "a percent sign in a name is not followed by two hex digits")
		}
		if value, err = url.QueryUnescape(value); err != nil {
			return malformedError(where, at, "a percent sign in a value is not followed by two hex digits")
		}
		if w.keepsField(name, paths) {
			w.params = append(w.params, param{name: name, value: value})
		}
	}
	w.sortParams()
	return nil
}

func (w *formWriter) sortParams() {
	slices.SortStableFunc(w.params, func(a, b param) int { return strings.Compare(a.name, b.name) })
}

// keepsField reports whether a field of a query or form is kept.
func (w *formWriter) keepsField(name string, paths *pathNode) bool {
	does := w.names[name]
	if paths != nil {
		does |= paths.members[name].fieldAction()
	}
	return does&actionIgnore == 0 && (w.keepAll || does&actionOnly != 0)
}
