// Package input makes a [check.Request] of what a developer has at hand: a curl command, a HAR file
// of a browser, or an OpenAPI document.
//
// It reads text only. It sends nothing, and opens no file and no page that the text names, unless
// the caller gives a function that does. Errors name the place in the text.
//
// Fields that belong to one connection or follow from the body are left out, since whatever sends
// the request makes its own: Content-Length, Connection, Transfer-Encoding and the like. So is
// Accept-Encoding, which would make answers unreadable in a report.
package input

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/retrysafe/retrysafe/check"
)

// maxText bounds a text that is read, in bytes.
const maxText = 64 << 20

// Named is a request of a document that has several.
type Named struct {
	// Name is the method and the path: "POST /orders". Further requests of one name have a number:
	// "POST /orders (2)".
	Name string
	// ID is the operationId of an OpenAPI document, or empty.
	ID string
	// Request is the request, or what is known of it if Reason is set.
	Request check.Request
	// Reason says why the request cannot be sent. It is empty if it can.
	Reason string
}

// Pick returns the request whose name or id is pick. With an empty pick it returns the only one
// that can be sent. Its errors list the names.
func Pick(all []Named, pick string) (Named, error) {
	if len(all) == 0 {
		return Named{}, errors.New("no request in it would have an effect")
	}
	var ready []Named
	for _, n := range all {
		switch {
		case pick != "" && (n.ID == pick || n.Name == pick):
			if n.Reason != "" {
				return Named{}, fmt.Errorf("%s cannot be sent: %s", pick, n.Reason)
			}
			return n, nil
		case n.Reason == "":
			ready = append(ready, n)
		}
	}
	switch {
	case pick == "" && len(ready) == 1:
		return ready[0], nil
	case pick == "" && len(ready) == 0:
		return Named{}, fmt.Errorf("no request can be sent; the first, %s: %s", all[0].Name, all[0].Reason)
	case pick == "":
		return Named{}, fmt.Errorf("pick one of %s", names(ready))
	default:
		return Named{}, fmt.Errorf("there is no %q; pick one of %s", pick, names(all))
	}
}

// names lists the first names.
func names(all []Named) string {
	const most = 20
	var list []string
	for i, n := range all {
		if i == most {
			list = append(list, fmt.Sprintf("and %d more", len(all)-most))
			break
		}
		list = append(list, n.Name)
	}
	return strings.Join(list, ", ")
}

// numbered gives requests of one name a number.
func numbered(all []Named) []Named {
	seen := make(map[string]int, len(all))
	for i, n := range all {
		seen[n.Name]++
		if seen[n.Name] > 1 {
			all[i].Name = fmt.Sprintf("%s (%d)", n.Name, seen[n.Name])
		}
	}
	return all
}

// ofConnection are the fields that whatever sends a request makes itself.
var ofConnection = map[string]bool{
	"Accept-Encoding": true, "Connection": true, "Content-Length": true, "Expect": true,
	"Keep-Alive": true, "Proxy-Connection": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true,
}

// addField adds a field to h unless it is one of the connection. It returns an error if HTTP does
// not allow the name or the value.
func addField(h http.Header, name, value string) error {
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

// method returns an error if text is no method of HTTP.
func validMethod(text string) error {
	if text == "" || strings.IndexFunc(text, notOfToken) >= 0 {
		return fmt.Errorf("%q is no method of HTTP", text)
	}
	return nil
}

// validURL returns text as a URL, or an error if no request can be sent to it. Errors do not have
// the URL, which may have secrets.
func validURL(text string) (*url.URL, error) {
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

// unsafe reports whether a method may have an effect.
func unsafe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodConnect:
		return false
	}
	return true
}
