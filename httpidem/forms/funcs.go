package forms

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html/template"
	"net/http"

	"github.com/retrysafe/retrysafe/httpidem"
)

// Options say where tokens come from. A page with keys alone needs none: use nil.
type Options struct {
	// Issuer makes one-time tokens. The Issuer of the package token implements it.
	Issuer interface {
		Issue(ctx context.Context, tenant string) (string, error)
	}
	// Tenant names the caller in the same way as the route that receives the form. Required with
	// Issuer.
	Tenant func(*http.Request) (string, error)
}

// Funcs returns functions for templates, to be called inside a form:
//
//	{{retrysafeKey}}             a hidden field with a new random key of 130 bits, for routes with FormKey
//	{{retrysafeToken .Request}}  a hidden field with a one-time token of Issuer, for routes with the key Token
//
// A page that calls one of them must be shown to one user only: use [Render], or set Cache-Control
// as Render does. An error of Issuer or Tenant ends the template; Render then sends no partial
// page. Several templates may share the map.
func Funcs(o *Options) template.FuncMap {
	if o == nil {
		o = new(Options)
	}
	issue := *o
	return template.FuncMap{"retrysafeKey": KeyField, "retrysafeToken": issue.TokenField}
}

// KeyField returns a hidden field with a new random key of 130 bits, for pages that are rendered in
// another way than by html/template. See [Header].
func KeyField() template.HTML { return hiddenField(rand.Text()) }

var (
	errNoIssuer  = errors.New("forms: retrysafeToken needs Options.Issuer and Options.Tenant; or use retrysafeKey")
	errNoRequest = errors.New("forms: retrysafeToken needs the request that asked for the page: {{retrysafeToken .Request}}")
)

// TokenField returns a hidden field with a one-time token for the user who asks for the page, as
// [KeyField] does with a key.
func (o *Options) TokenField(r *http.Request) (template.HTML, error) {
	switch {
	case o.Issuer == nil || o.Tenant == nil:
		return "", errNoIssuer
	case r == nil:
		return "", errNoRequest
	}
	tenant, err := o.Tenant(r)
	if err != nil {
		return "", fmt.Errorf("forms: no token without a tenant: %w", err)
	}
	token, err := o.Issuer.Issue(r.Context(), tenant)
	if err != nil {
		return "", fmt.Errorf("forms: no token was issued: %w", err)
	}
	return hiddenField(token), nil
}

// hiddenField returns the field. Without autocomplete="off", some browsers fill it after a reload
// with the key of the previous page.
func hiddenField(value string) template.HTML {
	return template.HTML(`<input type="hidden" name="` + httpidem.TokenField + `" value="` + //nolint:gosec // the value is escaped here
		template.HTMLEscapeString(value) + `" autocomplete="off">`)
}
