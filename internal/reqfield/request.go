package reqfield

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
)

// Request is a request in which fields are looked up. It reads the body once. It is not safe for
// concurrent use.
type Request struct {
	r    *http.Request
	body []byte

	kind    kind
	kindErr error
	params  map[string]string // of the content type
	fields  []pair
	formErr error
	object  any
	jsonErr error
	read    bool
}

// In returns a Request for r and its body.
func In(r *http.Request, body []byte) *Request { return &Request{r: r, body: body} }

type kind uint8

const (
	kindJSON kind = iota + 1
	kindForm
	kindParts
)

var (
	errForm = errors.New("the form cannot be read in one way only")
	errKind = errors.New("the body is neither JSON nor a form, by one Content-Type in UTF-8 and without a Content-Encoding")
	errJSON = errors.New("the body is no JSON that all programs read alike")
)

// strictRule refuses JSON that programs read in different ways.
var strictRule = func() *fingerprint.Compiled {
	c, err := fingerprint.Rule{MaxBytes: 64 << 20, MaxDepth: 256}.Compile()
	if err != nil {
		panic(err)
	}
	return c
}()

// kindOf returns the kind of the body.
func (in *Request) kindOf() (kind, error) {
	if in.kind != 0 || in.kindErr != nil {
		return in.kind, in.kindErr
	}
	in.kindErr = errKind
	media, params, ok := Media(in.r.Header)
	if !ok || params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8") {
		return 0, errKind
	}
	switch {
	case fingerprint.IsJSON(media):
		in.kind = kindJSON
	case media == "application/x-www-form-urlencoded":
		in.kind = kindForm
	case media == "multipart/form-data":
		in.kind = kindParts
	default:
		return 0, errKind
	}
	in.params, in.kindErr = params, nil
	return in.kind, nil
}

// Media returns the media type of a body, in lower case, and its parameters. It returns false if
// programs could take the body for another type: there is not one Content-Type that can be read, or
// the body has a Content-Encoding.
func Media(h http.Header) (media string, params map[string]string, ok bool) {
	lines, encoding := h["Content-Type"], h["Content-Encoding"]
	if len(lines) != 1 || len(encoding) > 1 || len(encoding) == 1 && !strings.EqualFold(encoding[0], "identity") {
		return "", nil, false
	}
	media, params, err := mime.ParseMediaType(lines[0])
	return media, params, err == nil
}

// formFields returns the body's form fields.
func (in *Request) formFields() ([]pair, error) {
	k, err := in.kindOf()
	switch {
	case err != nil:
		return nil, err
	case k == kindJSON:
		return nil, errKind
	case in.read:
		return in.fields, in.formErr
	case k == kindForm:
		in.fields, in.formErr = parsePairs(string(in.body))
	default:
		in.fields, in.formErr = parseMultipart(in.body, in.params["boundary"])
	}
	in.read = true
	return in.fields, in.formErr
}

// jsonBody returns the body as a value.
func (in *Request) jsonBody() (any, error) {
	if in.read {
		return in.object, in.jsonErr
	}
	in.read = true
	if _, err := strictRule.Sum("application/json", "", in.body); err != nil {
		in.jsonErr = errJSON // not err, which has positions in the body
		return nil, in.jsonErr
	}
	d := json.NewDecoder(bytes.NewReader(in.body))
	d.UseNumber()
	if d.Decode(&in.object) != nil {
		in.jsonErr = errJSON
	}
	return in.object, in.jsonErr
}

// pair is a field of a form or a query.
type pair struct{ name, value string }

// parsePairs parses a query or a form. It refuses a semicolon, which separates parameters for some
// programs and is a character for others.
func parsePairs(text string) ([]pair, error) {
	var all []pair
	if strings.Contains(text, ";") {
		return nil, errForm
	}
	for one := range strings.SplitSeq(text, "&") {
		name, value, _ := strings.Cut(one, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			return nil, errForm
		}
		if value, err = url.QueryUnescape(value); err != nil || !utf8.ValidString(value) || !utf8.ValidString(name) {
			return nil, errForm
		}
		all = append(all, pair{name, value})
	}
	return all, nil
}

// parseMultipart reads the fields of a multipart form; a file has no value.
func parseMultipart(body []byte, boundary string) ([]pair, error) {
	if boundary == "" {
		return nil, errForm
	}
	var all []pair
	in := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		p, err := in.NextRawPart()
		if err == io.EOF { // not errors.Is: a wrapped io.EOF is in the middle of a part
			return all, nil
		}
		if err != nil {
			return nil, errForm
		}
		lines := p.Header["Content-Disposition"]
		if len(lines) != 1 || strings.ContainsAny(lines[0], `*\`) || p.FormName() == "" {
			// programs differ in how they read these names
			return nil, errForm
		}
		field := pair{name: p.FormName()}
		if p.FileName() == "" {
			value, err := io.ReadAll(p)
			if err != nil || p.Header.Get("Content-Transfer-Encoding") != "" || !utf8.Valid(value) {
				return nil, errForm
			}
			field.value = string(value)
		}
		all = append(all, field)
	}
}

// valuesOf returns the values of a name, and refuses other spellings of it.
func valuesOf(all []pair, name string) (values []string, err error) {
	want := looseName(name)
	for _, p := range all {
		switch {
		case p.name == name:
			values = append(values, p.value)
		case looseName(p.name) == want:
			return nil, errTwice
		}
	}
	return values, nil
}

// looseName returns what some programs make of a name: they cut it at a bracket or a zero byte,
// trim it, replace dots and spaces by underscores, and ignore case.
func looseName(name string) string {
	if i := strings.IndexAny(name, "[\x00"); i >= 0 {
		name = name[:i]
	}
	name = strings.Trim(name, " \t\r\n\v\f")
	return strings.Map(func(r rune) rune {
		if r == '.' || r == ' ' {
			return '_'
		}
		return unicode.ToLower(unicode.ToUpper(r)) // ſ is s
	}, name)
}
