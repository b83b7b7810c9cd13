package check

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// alterBody returns a body with another number or string, for JSON and forms.
func alterBody(body []byte, contentType string) ([]byte, bool) {
	if isForm(contentType) {
		return alterForm(body)
	}
	value, err := decodeJSON(body)
	if err != nil {
		return nil, false
	}
	changed := false
	value = changeFirst(value, alterNumber, &changed)
	if !changed {
		value = changeFirst(value, alterString, &changed)
	}
	if !changed {
		return nil, false
	}
	altered, err := json.Marshal(value)
	return altered, err == nil
}

func isForm(contentType string) bool {
	return strings.HasPrefix(contentType, "application/x-www-form-urlencoded")
}

func alterForm(body []byte) ([]byte, bool) {
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, false
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if altered, ok := alterField(values, name); ok {
			return altered, true
		}
	}
	return nil, false
}

// alterField returns a form with another value of one field.
func alterField(values url.Values, name string) ([]byte, bool) {
	value := values.Get(name)
	if value == "" {
		return nil, false
	}
	if n := alterDigit(json.Number(value)); n != json.Number(value) {
		values.Set(name, n.String())
	} else {
		values.Set(name, alterText(value))
	}
	return []byte(values.Encode()), true
}

// decodeJSON parses JSON, with its numbers as they are written.
func decodeJSON(body []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, json.Unmarshal([]byte("x"), &value) // text after the value
	}
	return value, nil
}

// changeFirst replaces the first value, in the order of names, that by is for.
func changeFirst(value any, by func(any) (any, bool), done *bool) any {
	if *done {
		return value
	}
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			v[name] = changeFirst(v[name], by, done)
		}
	case []any:
		for i := range v {
			v[i] = changeFirst(v[i], by, done)
		}
	default:
		if next, ok := by(value); ok {
			*done = true
			return next
		}
	}
	return value
}

// alterDigit returns n with another first digit. It returns n if that has none that can change.
func alterDigit(n json.Number) json.Number {
	s := []byte(n)
	if string(s) == "0" {
		return "1"
	}
	i := bytes.IndexAny(s, "123456789")
	switch {
	case i < 0 || bytes.ContainsFunc(s, func(c rune) bool { return !strings.ContainsRune("0123456789+-.eE", c) }):
		return n
	case s[i] == '9':
		s[i] = '8'
	default:
		s[i]++
	}
	return json.Number(s)
}

// reverseMembers returns a JSON object with its members in the opposite order and other white
// space. ok is false for another body, or one with fewer than two members.
func reverseMembers(body []byte) (shuffled []byte, ok bool) {
	all, ok := membersOf(body)
	if !ok || len(all) < 2 {
		return nil, false
	}
	slices.Reverse(all)
	return writeMembers(all, "{\n  ", " : ", " ,\n  ", "\n}"), true
}

func replacePlaceholder(body []byte, token string) []byte {
	return bytes.ReplaceAll(body, []byte(placeholder), []byte(token))
}
