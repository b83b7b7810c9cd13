package forms

import (
	"bytes"
	"html/template"
	"net/http"
)

// cacheControl keeps a cache from giving a page with a key to another user, or from showing it
// again without asking the server. It allows Back to show the page that the user has left, with its
// old key, so that a second press is a duplicate. With "no-store" Back would fetch a new key, and
// the second press would be a second order.
const cacheControl = "private, no-cache"

// Render executes the template name of t (t itself if name is empty) and writes a page that has a
// key or a token in it: as HTML, with the Cache-Control "private, no-cache". No cache gives such a
// page to another user. Opening the page again gives a new key; going Back to it may show it with
// its old key. Render executes the whole template first: on an error it writes nothing, and the
// caller answers. If a token could not be issued, the error wraps that of the issuer.
//
// If you render pages in another way, call [Header].
func Render(w http.ResponseWriter, status int, t *template.Template, name string, data any) error {
	var page bytes.Buffer
	var err error
	if name == "" {
		err = t.Execute(&page, data)
	} else {
		err = t.ExecuteTemplate(&page, name, data)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	Header(w.Header())
	w.WriteHeader(status)
	_, _ = page.WriteTo(w) // the client has gone
	return nil
}

// Header sets the Cache-Control of a page with a key or a token: "private, no-cache".
func Header(h http.Header) { h.Set("Cache-Control", cacheControl) }

// SeeOther answers a form with 303 See Other to the page of its result, so that a reload shows the
// result again and sends nothing. A duplicate of the form gets the same redirect from the record.
// Use a path of this site for location ("/orders/7"). Check a location that is built from request
// data, since it may lead to another site. Under the policy Succeed, duplicates get
// httpidem.AnswerOptions.Succeed instead.
func SeeOther(w http.ResponseWriter, r *http.Request, location string) {
	w.Header().Set("Cache-Control", "no-store") // the record answers duplicates, not a cache
	http.Redirect(w, r, location, http.StatusSeeOther)
}
