package httpidem

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// StoredAnswer returns an answer in the stored format, for an operator who resolves a request in
// doubt and knows its answer. Duplicates of the request then get it.
func StoredAnswer(status int, h http.Header, body []byte) (retrysafe.Answer, error) {
	if status < 200 || status > 599 {
		return retrysafe.Answer{}, fmt.Errorf("httpidem: status %d is no answer; use 200 to 599", status)
	}
	for name, values := range h {
		if slices.ContainsFunc(append(values[:len(values):len(values)], name), controls) {
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
	var m message
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

// controls reports whether a name or a value of a field has characters that end it.
func controls(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
