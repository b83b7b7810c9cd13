package httpidem

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// TokenField is the form field that has the token if no header has it.
const TokenField = "idempotency_key" //nolint:gosec // the name of a field

// Keys of tokens have these in place of the layer and the operation of a route: the issuer of a
// token does not need to know where it is used.
const (
	tokenLayer     = "token"
	tokenOperation = "token"
)

// Tokens is what a route with Key [Token] needs of the issuer of its tokens. The Issuer of the
// package token implements it.
type Tokens interface {
	// Redeem adds to c what is known of a token of that tenant. It never refuses a token: the store
	// does that, in the same way for every invalid token.
	Redeem(tenant, token string, c *retrysafe.Call)
}

// tokenKey returns the key of a tenant's token.
func tokenKey(tenant, token string) retrysafe.Key {
	return retrysafe.Key{Tenant: retrysafe.KeyPart(tenant), Operation: tokenOperation, ID: retrysafe.KeyPart(token)}
}

// redeem sets what the call requires of a token.
func (m *Middleware) redeem(tenant, token string, c *retrysafe.Call) {
	c.MustBeIssued = true
	if m.o.KeySource.Tokens != nil {
		m.o.KeySource.Tokens.Redeem(tenant, token, c)
	}
}

// mayBeInForm reports whether a request without a key in its header may have one in its body.
func (m *Middleware) mayBeInForm(r *http.Request) bool {
	return (m.o.Key == Token || m.o.KeySource.Form) && isForm(r)
}

// isForm reports whether the body of r may have form fields.
func isForm(r *http.Request) bool {
	media, boundary := formOf(r.Header)
	return media == formURL || media == formData && boundary != ""
}

const (
	formURL  = "application/x-www-form-urlencoded"
	formData = "multipart/form-data"
)

func formOf(h http.Header) (media, boundary string) {
	media, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return "", ""
	}
	return media, params["boundary"]
}

// formKey finds the key in the body of a form. The key is empty if there is none and none is
// needed. Several fields of that name are refused, since services differ in which one they take.
func (m *Middleware) formKey(h http.Header, body []byte) (string, *Problem) {
	media, boundary := formOf(h)
	var values []string
	whole := true
	switch media {
	case formURL:
		values = urlFields(body)
	case formData:
		values, whole = partFields(body, boundary)
	}
	none := len(values) == 0 || len(values) == 1 && values[0] == ""
	if m.o.Key == Token {
		switch {
		case none:
			return "", m.tokenMissing()
		case len(values) > 1 || len(values[0]) > maxKey:
			return "", problemFor(retrysafe.CodeTokenRefused, errors.New("the form has several tokens, or one that is too long"))
		}
		return values[0], nil
	}
	switch {
	case !whole: // the service might find a key that was not found here
		p := problemFor(retrysafe.CodeKeyMalformed, errors.New("the form breaks off, or has a part that cannot be read"))
		p.Detail = "The form cannot be read to its end. Nothing was done."
		return "", p
	case len(values) == 0 && m.o.Key == Required:
		return "", m.keyMissing()
	case len(values) == 0:
		return "", nil
	case len(values) == 1:
		if _, err := FormatKey(values[0]); err == nil {
			return values[0], nil
		}
	}
	p := problemFor(retrysafe.CodeKeyMalformed, errors.New("the form has several keys, or one that is none"))
	p.Detail = "The form has several fields " + TokenField + ", or one that is no key (1 to 255 characters of printable ASCII). Nothing was done."
	return "", p
}

// urlFields returns the values of the token's field, two at most. A field whose name cannot be
// decoded is not one of them.
func urlFields(body []byte) (values []string) {
	for pair := range bytes.SplitSeq(body, []byte("&")) {
		name, value, _ := strings.Cut(string(pair[:min(len(pair), 8*maxKey)]), "=")
		if name, err := url.QueryUnescape(name); err != nil || name != TokenField {
			continue
		}
		value, err := url.QueryUnescape(value)
		if err != nil {
			// too long to be accepted: other parsers may read it in different ways
			value = strings.Repeat("%", maxKey+1)
		}
		if values = append(values, value); len(values) == 2 {
			break
		}
	}
	return values
}

// partFields is urlFields for a multipart body. A body that breaks off has no fields and is not
// whole. Neither is a body that has a part without a name: the service might see fields that were
// not found here.
func partFields(body []byte, boundary string) (values []string, whole bool) {
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	whole = true
	for {
		p, err := parts.NextPart()
		switch {
		case err == io.EOF: //nolint:errorlint // compared without errors.Is: an io.EOF that is wrapped means that the body broke off
			return values, whole
		case err != nil:
			return nil, false
		case p.FormName() == "":
			whole = false
			continue
		case p.FormName() != TokenField || len(values) == 2:
			continue
		}
		value, err := io.ReadAll(io.LimitReader(p, maxKey+1))
		if err != nil {
			return nil, false
		}
		values = append(values, string(value))
	}
}
