package httpidem

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/internal/reqfield"
)

// keyField parses KeySource.Field; it returns nil if there is none.
func (o *Options) keyField() (*reqfield.Field, error) {
	if o.KeySource.Field == "" {
		return nil, nil //nolint:nilnil // no body has the key
	}
	f, err := reqfield.Parse(o.KeySource.Field)
	if err == nil && !f.InBody() {
		err = fmt.Errorf("%q is no field of a body; write it like /idempotency_key, and name headers in KeyHeader", o.KeySource.Field)
	}
	return &f, err
}

// validateKeyField reports what is wrong with KeyField and FormKey.
func (o *Options) validateKeyField(wrong func(format string, args ...any)) {
	if o.KeySource.Form && (o.Key.Derived() || o.Key == Off) {
		wrong("KeySource.Form reads keys that forms bring, and Key takes none; leave one of them out")
	}
	f, err := o.keyField()
	switch {
	case err != nil:
		wrong("KeySource.Field: %w", err)
	case f == nil:
	case o.Key.Derived() || o.Key == Off || o.Key == Token:
		wrong("KeySource.Field reads keys that clients make, and Key takes none of those; leave one of them out")
	case f.InForm() && o.KeySource.Form:
		wrong("KeySource.Form and KeySource.Field both name a field of forms; write KeySource.Field for JSON alone, like /idempotency_key, or leave KeySource.Form out")
	}
}

// mayBeInField reports whether the body of r may have the key in KeySource.Field. One that says in
// two ways what it is may have it too, and is refused when it is read.
func (m *Middleware) mayBeInField(r *http.Request) bool {
	if m.keyField == nil {
		return false
	}
	for _, line := range r.Header["Content-Type"] {
		media, _, _ := strings.Cut(line, ";")
		media = strings.ToLower(strings.TrimSpace(media))
		if fingerprint.IsJSON(media) || m.keyField.InForm() && (media == formURL || media == formData) {
			return true
		}
	}
	return false
}

// fieldKey finds the key in the body, or else in lines, those of the header. It is empty if there
// is none and none is needed.
func (m *Middleware) fieldKey(r *http.Request, lines []string, body []byte) (string, *Problem) {
	key, err := m.keyField.Of(reqfield.In(r, body))
	switch {
	case err == nil:
		if _, err = FormatKey(key); err == nil {
			return key, nil
		}
	case errors.Is(err, reqfield.ErrEmpty), !errors.Is(err, reqfield.ErrAbsent):
	case lines != nil:
		return m.lineKey(r, lines)
	default:
		return m.noKey()
	}
	p := problemFor(retrysafe.CodeKeyMalformed, err)
	p.Detail = "The field " + m.keyField.String() + " of the body is no key, or can be read in more than one way: send it once, as a text of 1 to 255 " +
		"characters of printable ASCII, in a body that is what its Content-Type says. Nothing was done."
	return "", p
}

// lineKey parses the header that carries the key.
func (m *Middleware) lineKey(r *http.Request, lines []string) (string, *Problem) {
	key, err := ParseKey(lines)
	if err == nil {
		return key, nil
	}
	p := problemFor(retrysafe.CodeKeyMalformed, err)
	p.Detail = "In " + m.headerOf(r) + ", " + err.Error() + ". Nothing was done."
	return "", p
}

// noKey is for a request that has a key nowhere.
func (m *Middleware) noKey() (string, *Problem) {
	if m.o.Key == Required {
		return "", m.keyMissing()
	}
	return "", nil
}
