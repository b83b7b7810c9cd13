package check

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Request is a request as it is sent, without the key.
//
// In URL, header values and Body the text {{unique}} stands for a token that is new for each
// operation, and the same for its repeats. It is for APIs that refuse a second order of one number.
type Request struct {
	// Method is the request's method. Default: POST.
	Method string
	// URL is absolute, with the scheme http or https.
	URL string
	// Header has the fields of the request, credentials included. It is never written to.
	Header http.Header
	// Body is the whole body.
	Body []byte
}

// Clone returns a copy of r that shares nothing with it.
func (r Request) Clone() Request {
	r.Header = r.Header.Clone()
	if r.Header == nil {
		r.Header = make(http.Header)
	}
	r.Body = slices.Clone(r.Body)
	return r
}

// Curl returns r as a line for a shell. Fields that carry credentials have a variable of the shell
// in place of the value: $AUTHORIZATION, $COOKIE, $API_KEY, $PROXY_AUTHORIZATION. So have fields
// whose name has the word auth, token, secret or password: X-Auth-Token is $X_AUTH_TOKEN. The user
// and the password of a URL are $AUTHORIZATION.
func (r Request) Curl() string { return r.curlWith(operation{}.shellVariables(nil)) }

// curlWith is Curl with the variables of fields that carry credentials.
func (r Request) curlWith(variables func(name string) (variable string, ok bool)) string {
	r = r.withoutUser()
	var b strings.Builder
	b.WriteString("curl -i -X " + r.methodOrPost() + " " + quote(r.URL))
	for _, name := range sortedNames(r.Header) {
		for _, value := range r.Header[name] {
			switch variable, secret := variables(name); {
			case secret:
				b.WriteString(` -H "` + name + `: $` + variable + `"`)
			case value == "":
				// the form in which curl sends an empty field
				b.WriteString(" -H " + quote(name+";"))
			default:
				b.WriteString(" -H " + quote(name+": "+value))
			}
		}
	}
	if len(r.Body) > 0 {
		if r.Header.Get("Content-Type") == "" {
			b.WriteString(" -H 'Content-Type:'") // or curl adds that of a form
		}
		// in --data-binary a first @ names a file
		b.WriteString(" --data-raw " + quote(string(r.Body)))
	}
	return b.String()
}

func (r Request) methodOrPost() string {
	if r.Method == "" {
		return http.MethodPost
	}
	return r.Method
}

func sortedNames(h http.Header) []string {
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// quote returns s in single quotes of a shell, where it needs them, and in $'…' if it has control
// characters or bytes that are no UTF-8, so that a report has a command in one line, the bytes that
// were sent, and nothing that controls a terminal.
func quote(s string) string {
	if valid := utf8.ValidString(s); !valid || strings.ContainsFunc(s, unicode.IsControl) {
		var b strings.Builder
		for i := range len(s) {
			switch c := s[i]; {
			case c < ' ' || c == 0x7f || !valid && c >= 0x80:
				fmt.Fprintf(&b, `\%03o`, c)
			case c == '\'' || c == '\\':
				b.WriteByte('\\')
				b.WriteByte(c)
			default:
				b.WriteByte(c)
			}
		}
		return "$'" + b.String() + "'"
	}
	plain := s != ""
	for _, c := range s {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,", c) {
			plain = false
		}
	}
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
