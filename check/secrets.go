package check

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// secretFields are the fields whose values are not shown, with the variable that stands for each.
var secretFields = map[string]string{
	"Authorization":       "AUTHORIZATION",
	"Proxy-Authorization": "PROXY_AUTHORIZATION",
	"Cookie":              "COOKIE",
	"Set-Cookie":          "SET_COOKIE",
	"X-Api-Key":           "API_KEY",
}

// secretWords are words in names of fields whose values are not shown either.
var secretWords = []string{"auth", "token", "secret", "password", "apikey"}

// secretVariable returns the variable of the shell that stands for the values of the field name. ok
// is false if they may be shown. named are further fields that carry credentials.
func secretVariable(name string, named []string) (variable string, ok bool) {
	name = http.CanonicalHeaderKey(name)
	if variable, ok = secretFields[name]; ok {
		return variable, true
	}
	upper := strings.ToUpper(name)
	words := strings.FieldsFunc(strings.ToLower(name), func(c rune) bool { return c == '-' || c == '_' })
	if !slices.ContainsFunc(words, func(w string) bool { return slices.Contains(secretWords, w) }) &&
		!strings.Contains(upper, "API-KEY") &&
		!slices.ContainsFunc(named, func(n string) bool { return strings.EqualFold(n, name) }) {
		return "", false
	}
	variable = strings.Map(func(c rune) rune {
		if c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return '_'
	}, upper)
	if variable[0] >= '0' && variable[0] <= '9' {
		variable = "_" + variable
	}
	return variable, true
}

// withoutUser returns r with the user and the password of its URL in the field Authorization, which
// is how they are sent.
func (r Request) withoutUser() Request {
	u, err := url.Parse(r.URL)
	if err != nil || u.User == nil {
		return r
	}
	r = r.Clone()
	if r.Header.Get("Authorization") == "" {
		password, _ := u.User.Password()
		basic := http.Request{Header: r.Header}
		basic.SetBasicAuth(u.User.Username(), password)
	}
	u.User = nil
	r.URL = u.String()
	return r
}

// secretNames are the names of the fields that carry credentials of t's callers.
func (t *Target) secretNames() []string {
	names := slices.Clone(t.Credentials)
	for name := range t.OtherCaller {
		names = append(names, name)
	}
	return names
}

// Curl returns the request of t as [Request.Curl] does. The values of Credentials and OtherCaller
// are not shown either.
func (t *Target) Curl() string {
	return t.Request.curlWith(operation{}.shellVariables(t.secretNames()))
}
