package check

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// maxAltered is how many members of a body are changed alone.
const maxAltered = 4

// findMissedMembers sends op, which took effect once, with another value of one member at a time. A
// success is a change that the API did not see, unless it refuses that body under a new key too.
// missed is false if it saw all changes.
func (s *session) findMissedMembers(ctx context.Context, e *effectCounter, op operation) (f finding, missed bool) {
	kind := s.target.Request.Header.Get("Content-Type")
	other, _ := s.otherBodyText()
	var accepted []string
	replies := map[string]reply{}
	for _, name := range membersBeside(s.target.Request.Body, other, kind) {
		body, ok := alterMember(op.request.Body, kind, name)
		if !ok {
			continue
		}
		r := s.sendUnshown(ctx, op.withChange(func(q *Request) { q.Body = body }))
		if r.isSuccess() {
			accepted = append(accepted, name)
			replies[name] = r
		}
	}
	if len(accepted) == 0 {
		return finding{}, false
	}
	acted := e.awaitCount(ctx, 1) - 1
	valid := slices.DeleteFunc(accepted, func(name string) bool { return !s.isValidAlone(ctx, name, kind) })
	for _, name := range valid {
		body, _ := alterMember(op.request.Body, kind, name)
		r := replies[name]
		s.showExchange("the first request with another "+name+", under the same key", op.withChange(func(q *Request) { q.Body = body }), &r)
	}
	switch names := strings.Join(valid, ", "); {
	case acted > 0:
		return brokenFinding(Critical, "a body in which one member is another one took effect under the same key"), true
	case len(valid) == 1:
		return brokenFinding(Serious, "another value of %s alone, under the same key, is taken for a duplicate", names), true
	case len(valid) > 1:
		return brokenFinding(Serious, "another value of one member alone, under the same key, is taken for a duplicate: %s", names), true
	}
	return finding{}, false
}

// isValidAlone reports whether a request with another value of one member is accepted under a key
// of its own.
func (s *session) isValidAlone(ctx context.Context, name, kind string) bool {
	op := s.newOperation()
	body, ok := alterMember(op.request.Body, kind, name)
	if !ok {
		return false
	}
	control := s.sendUnshown(ctx, op.withChange(func(q *Request) { q.Body = body }))
	return control.isSuccess()
}

// membersBeside returns the names of the members of body that are changed alone, at most
// maxAltered. The one in which alone other differs is not among them: other was sent before.
func membersBeside(body, other []byte, contentType string) []string {
	all, others := fieldsOf(body, contentType), fieldsOf(other, contentType)
	var names, differ []string
	for _, m := range all {
		names = append(names, m.name)
		if i := slices.IndexFunc(others, func(o field) bool { return o.name == m.name }); i < 0 || !sameJSON(others[i].value, m.value) {
			differ = append(differ, m.name)
		}
	}
	if len(differ) == 1 {
		names = slices.DeleteFunc(names, func(name string) bool { return name == differ[0] })
	}
	return names[:min(len(names), maxAltered)]
}

// sameJSON compares values by their meaning, or else by their bytes.
func sameJSON(a, b []byte) bool {
	x, err := decodeJSON(a)
	y, err2 := decodeJSON(b)
	if err != nil || err2 != nil {
		return bytes.Equal(a, b)
	}
	p, _ := json.Marshal(x) // what was decoded can be encoded
	q, _ := json.Marshal(y)
	return bytes.Equal(p, q)
}

// alterMember returns body with another value of one member. ok is false if it has none.
func alterMember(body []byte, contentType, name string) (altered []byte, ok bool) {
	if isForm(contentType) {
		values, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, false
		}
		return alterField(values, name)
	}
	all, ok := membersOf(body)
	i := slices.IndexFunc(all, func(m field) bool { return m.name == name })
	if !ok || i < 0 {
		return nil, false
	}
	value, err := decodeJSON(all[i].value)
	changed := false
	for _, by := range []func(any) (any, bool){alterNumber, alterString, alterBool} {
		if err == nil && !changed {
			value = changeFirst(value, by, &changed)
		}
	}
	if !changed {
		return nil, false
	}
	all[i].value, err = json.Marshal(value)
	return writeMembers(all, "{", ":", ",", "}"), err == nil
}

// field is a member of a JSON object or a field of a form.
type field struct {
	name  string
	value []byte
}

// fieldsOf returns the members of a JSON object in their order, or the fields of a form by name.
func fieldsOf(body []byte, contentType string) (all []field) {
	if !isForm(contentType) {
		all, _ = membersOf(body)
		return all
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil
	}
	for name := range values {
		all = append(all, field{name, []byte(values.Get(name))})
	}
	slices.SortFunc(all, func(a, b field) int { return strings.Compare(a.name, b.name) })
	return all
}

// membersOf returns the members of a JSON object in their order. ok is false for another body.
func membersOf(body []byte) (all []field, ok bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, false
		}
		name, _ := token.(string) // of a member it is one
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, false
		}
		all = append(all, field{name, value})
	}
	_, err := d.Token()
	return all, err == nil
}

// writeMembers returns a JSON object.
func writeMembers(all []field, begin, colon, comma, end string) []byte {
	var texts [][]byte
	for _, m := range all {
		name, _ := json.Marshal(m.name) // a string: cannot fail
		texts = append(texts, slices.Concat(name, []byte(colon), m.value))
	}
	return slices.Concat([]byte(begin), bytes.Join(texts, []byte(comma)), []byte(end))
}
