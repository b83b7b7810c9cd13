// Package sendable says which fields, methods and URLs a request may have that is read from a text.
package sendable

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// ofConnection are the fields that whatever sends a request makes itself.
var ofConnection = map[string]bool{
	"Accept-Encoding": true, "Connection": true, "Content-Length": true, "Expect": true,
	"Keep-Alive": true, "Proxy-Connection": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true,
}

// AddField adds a field to h unless it is one of the connection. It returns an error if HTTP does
// not allow the name or the value.
func AddField(h http.Header, name, value string) error {
	if name == "" || strings.IndexFunc(name, notOfToken) >= 0 {
		return fmt.Errorf("%q is no name of a header field", name)
	}
	value = strings.Trim(value, " \t")
	if strings.IndexFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) >= 0 {
		return fmt.Errorf("the field %s has a control character in its value", name)
	}
	if name = http.CanonicalHeaderKey(name); !ofConnection[name] {
		h[name] = append(h[name], value)
	}
	return nil
}

// notOfToken reports whether names of fields and methods cannot have c.
func notOfToken(c rune) bool {
	letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
	return !letter && (c > 0x7e || !strings.ContainsRune("!#$%&'*+-.^_`|~", c))
}

// Method returns an error if text is no method of HTTP.
func Method(text string) error {
	if text == "" || strings.IndexFunc(text, notOfToken) >= 0 {
		return fmt.Errorf("%q is no method of HTTP", text)
	}
	return nil
}

// URL returns text as a URL, or an error if no request can be sent to it. Errors do not have
// the URL, which may have secrets.
func URL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		var outer *url.Error
		if errors.As(err, &outer) {
			err = outer.Err
		}
		return nil, fmt.Errorf("the URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, errors.New("the URL needs http:// or https:// and a host")
	}
	return u, nil
}
