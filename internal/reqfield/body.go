package reqfield

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

var errScalar = errors.New("the value is neither a text nor a whole number below 2^53")

func (f Field) bodyValue(in *Request) (string, error) {
	if len(in.body) == 0 && in.r.Header["Content-Encoding"] == nil {
		return "", ErrAbsent
	}
	k, err := in.kindOf()
	if err != nil {
		return "", err
	}
	if len(f.path) == 1 { // some programs would take another one from the query
		params, err := parsePairs(in.r.URL.RawQuery)
		if err != nil {
			return "", err
		}
		if found, err := valuesOf(params, f.path[0]); err != nil || len(found) > 0 {
			return "", errTwice
		}
	}
	if k == kindJSON {
		return f.jsonValue(in)
	}
	if !f.form {
		// its content type is JSON: another kind would be another reading of the same bytes
		return "", errKind
	}
	all, err := in.formFields()
	if err != nil {
		return "", err
	}
	found, err := valuesOf(all, f.path[0])
	if err != nil {
		return "", err
	}
	return onlyValue(found)
}

// jsonValue finds a member. Some readers, Go's for one, also match a member whose name differs in
// case, so jsonValue refuses an object with both.
func (f Field) jsonValue(in *Request) (string, error) {
	value, err := in.jsonBody()
	if err != nil {
		return "", err
	}
	for _, name := range f.path {
		object, ok := value.(map[string]any)
		if !ok {
			return "", ErrAbsent
		}
		for other := range object {
			if other != name && strings.EqualFold(other, name) {
				return "", errTwice
			}
		}
		if value, ok = object[name]; !ok {
			return "", ErrAbsent
		}
	}
	switch v := value.(type) {
	case string:
		return v, nil
	case json.Number:
		if !isExactInteger(v.String()) {
			// 7.0 and 70e-1 would be other keys than 7, and many programs read 2^53 and 2^53+1 as
			// one number
			return "", errScalar
		}
		return v.String(), nil
	case nil:
		return "", ErrAbsent
	}
	return "", errScalar
}

// isExactInteger reports whether a number has only one spelling, and is exact in a double.
func isExactInteger(s string) bool {
	n, err := strconv.ParseInt(s, 10, 64)
	return err == nil && s == strconv.FormatInt(n, 10) && n < 1<<53 && n > -1<<53
}
