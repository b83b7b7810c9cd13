package fingerprint

import (
	"bytes"
	"crypto/md5" //nolint:gosec // for existing keys
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Legacy compiles the rule and calls [Compiled.Legacy].
func (r Rule) Legacy(prefix, user, method, query string, body []byte) (string, error) {
	c, err := r.Compile()
	if err != nil {
		return "", err
	}
	return c.Legacy(prefix, user, method, query, body)
}

// Legacy returns a key in a form that is often written by hand: prefix:U=<user>M=<method>P=<MD5 in
// lower-case hex>. It is for sharing keys with programs that use this form. method is the name of
// the called interface. The hashed text is that of [Compiled.LegacyParams].
//
// Use it for compatibility only. The joined text is ambiguous, so different requests can have the
// same key, and anyone can make MD5 collisions. A user or a method that contains the letters of the
// form is ambiguous too. Use [Compiled.Sum] for everything new.
func (c *Compiled) Legacy(prefix, user, method, query string, body []byte) (string, error) {
	params, err := c.LegacyParams(query, body)
	if err != nil {
		return "", err
	}
	sum := md5.Sum([]byte(params)) //nolint:gosec // for existing keys
	return prefix + ":U=" + user + "M=" + method + "P=" + hex.EncodeToString(sum[:]), nil
}

// LegacyPlain returns the form that is older than that of Legacy: user:method:params, without a
// hash. The warnings of Legacy apply. In addition, the values of the request are readable in the
// key.
func (c *Compiled) LegacyPlain(user, method, query string, body []byte) (string, error) {
	params, err := c.LegacyParams(query, body)
	if err != nil {
		return "", err
	}
	return user + ":" + method + ":" + params, nil
}

// LegacyParams returns the text k=v&k=v of query and body as one list, sorted by name; if both have
// a name, those of the query come first. A body that begins with "{" is a JSON object, whose
// members are the list: strings without quotes, other values as canonical JSON. Any other body is
// read as a form. Values are decoded. The text is ambiguous: {"a":"1&b=2"} and {"a":"1","b":"2"}
// have the same one.
func (c *Compiled) LegacyParams(query string, body []byte) (string, error) {
	if len(query)+len(body) > c.maxBytes {
		return "", fmt.Errorf("%w: %d bytes, at most %d are read", ErrTooLarge, len(query)+len(body), c.maxBytes)
	}
	w := &formWriter{Compiled: c}
	if err := w.readParams("query", query, nil); err != nil {
		return "", err
	}
	list := slices.Clone(w.params)
	if bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		kept, err := w.writeJSON(body)
		if err != nil {
			return "", err
		}
		if kept {
			if list, err = appendMembers(list, w.out); err != nil {
				return "", err
			}
		}
	} else {
		if err := w.readParams("form body", string(body), w.paths); err != nil {
			return "", err
		}
		list = append(list, w.params...)
	}
	if len(list) == 0 && !c.keepAll {
		return "", ErrNothingKept
	}
	w.params = list
	w.sortParams()
	var b strings.Builder
	for i, p := range w.params {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(p.name + "=" + p.value)
	}
	return b.String(), nil
}

// appendMembers appends the members of an object in canonical form.
func appendMembers(list []param, object []byte) ([]param, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, fmt.Errorf("%w: the JSON body is no object", ErrMalformed)
	}
	for name, raw := range members {
		value := string(raw)
		if raw[0] == '"' {
			if err := json.Unmarshal(raw, &value); err != nil {
				return nil, fmt.Errorf("%w: a string of the JSON body cannot be read", ErrMalformed)
			}
		}
		list = append(list, param{name: name, value: value})
	}
	return list, nil
}
