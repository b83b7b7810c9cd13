package httpsig

import (
	"errors"
	"net/http"
	"strings"

	"github.com/dunglas/httpsfv"
)

// Limits of what is read before the sender is known.
const (
	// bytes of Signature, of Signature-Input and of Content-Digest, all lines together
	maxField      = 8 << 10
	maxComponents = 64 // of one signature
)

var (
	errTooLong     = errors.New("a field of signatures has more than 8 KiB")
	errForm        = errors.New("a field of signatures is no dictionary of RFC 9651, has something twice, or is not in its usual spelling")
	errNone        = errors.New("no signature has the tag that is looked for")
	errMany        = errors.New("several signatures have the tag that is looked for")
	errHalf        = errors.New("the signature has parameters and no value, or a value that is none")
	errParameter   = errors.New("a parameter of the signature is missing, unknown, or of another type than its own")
	errTwice       = errors.New("the signature covers something twice, too much, or nothing")
	errOfComponent = errors.New("a covered component has parameters")
)

// parsedSignature is one signature of a message, as parsed and not yet verified.
type parsedSignature struct {
	value            []byte   // the signature
	names            []string // of the covered components
	params           string   // as signed
	keyid, nonce     string
	alg, tag         string
	created, expires int64 // seconds; expires only if it has one
	mayExpire        bool
}

// parseDictionary parses a dictionary of RFC 9651, and refuses one with a repeated name. The
// standard takes the last value of such a name and ignores the others, so two parsers might not see
// the same. Spaces do not matter.
func parseDictionary(lines []string) (*httpsfv.Dictionary, error) {
	size := 0
	for _, line := range lines {
		size += len(line) + 2
	}
	if size > maxField {
		return nil, errTooLong
	}
	d, err := httpsfv.UnmarshalDictionary(lines)
	if err != nil {
		return nil, errForm
	}
	text, err := httpsfv.Marshal(d)
	if err != nil || !sameButSpaces(text, lines) {
		return nil, errForm
	}
	return d, nil
}

// sameButSpaces reports whether text equals the lines, joined by commas, apart from spaces and
// tabs.
func sameButSpaces(text string, lines []string) bool {
	rest := text
	for i, line := range lines {
		if i > 0 && !cutIgnoringSpaces(&rest, ",") || !cutIgnoringSpaces(&rest, line) {
			return false
		}
	}
	return strings.Trim(rest, " ") == ""
}

// cutIgnoringSpaces cuts s off the start of rest.
func cutIgnoringSpaces(rest *string, s string) bool {
	r := *rest
	for i := range len(s) {
		if s[i] == ' ' || s[i] == '\t' {
			continue
		}
		r = strings.TrimLeft(r, " ")
		if r == "" || r[0] != s[i] {
			return false
		}
		r = r[1:]
	}
	*rest = r
	return true
}

// findSignature returns the one signature of a message that has the tag; with untagged, the one
// without a tag. It ignores labels, which intermediaries may change (RFC 9421, section 4.2), and
// signatures with other tags, which are for other applications.
func findSignature(h http.Header, tag string, untagged bool) (*parsedSignature, error) {
	inputs, err := parseDictionary(h["Signature-Input"])
	if err != nil {
		return nil, err
	}
	var label string
	var list httpsfv.InnerList
	found := 0
	for _, name := range inputs.Names() {
		member, _ := inputs.Get(name)
		of, ok := member.(httpsfv.InnerList)
		if !ok {
			return nil, errForm
		}
		has, tagged := of.Params.Get("tag")
		if untagged && !tagged || !untagged && has == tag {
			label, list = name, of
			found++
		}
	}
	switch {
	case found == 0:
		return nil, errNone
	case found > 1:
		return nil, errMany
	}
	in := new(parsedSignature)
	if in.value, err = signatureValue(h, label); err != nil {
		return nil, err
	}
	if err := in.readComponents(list.Items); err != nil {
		return nil, err
	}
	if err := in.readParams(list.Params); err != nil {
		return nil, err
	}
	if in.params, err = httpsfv.Marshal(list); err != nil {
		return nil, errForm
	}
	return in, nil
}

// signatureValue returns the signature with a label.
func signatureValue(h http.Header, label string) ([]byte, error) {
	values, err := parseDictionary(h["Signature"])
	if err != nil {
		return nil, err
	}
	member, _ := values.Get(label)
	item, ok := member.(httpsfv.Item)
	if !ok || len(item.Params.Names()) > 0 {
		return nil, errHalf
	}
	value, ok := item.Value.([]byte)
	if !ok || len(value) == 0 {
		return nil, errHalf
	}
	return value, nil
}

func (in *parsedSignature) readComponents(items []httpsfv.Item) error {
	if len(items) == 0 || len(items) > maxComponents {
		return errTwice
	}
	in.names = make([]string, len(items))
	for i, item := range items {
		name, ok := item.Value.(string)
		if !ok || len(item.Params.Names()) > 0 {
			return errOfComponent
		}
		if in.covers(name) {
			return errTwice
		}
		in.names[i] = name
	}
	return nil
}

// covers reports whether the signature covers a component.
func (in *parsedSignature) covers(name string) bool {
	for _, n := range in.names {
		if n == name {
			return true
		}
	}
	return false
}

// readParams reads the parameters of RFC 9421, section 2.3. It refuses an unknown one, which may
// say that the signature is not for this use.
func (in *parsedSignature) readParams(p *httpsfv.Params) error {
	for _, name := range p.Names() {
		v, _ := p.Get(name)
		ok := false
		switch name {
		case "created":
			in.created, ok = v.(int64)
		case "expires":
			in.expires, ok = v.(int64)
			in.mayExpire = true
		case "keyid":
			in.keyid, ok = v.(string)
		case "nonce":
			in.nonce, ok = v.(string)
		case "alg":
			in.alg, ok = v.(string)
			ok = ok && in.alg != ""
		case "tag":
			in.tag, ok = v.(string)
		}
		if !ok {
			return errParameter
		}
	}
	if _, ok := p.Get("created"); !ok || checkKeyID(in.keyid) != nil || len(in.nonce) < minNonce || len(in.nonce) > maxNonce {
		return errParameter
	}
	return nil
}
