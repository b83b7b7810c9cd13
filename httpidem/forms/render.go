package forms

import (
	"bytes"
	"html/template"
	"net/http"
)

// cacheControl keeps a page with a key from other users and from being shown anew out of a cache,
// but not from Back: there the browser may show the page that the user has left, with the key that
// it had, so that a second press is a repeat. "no-store" would give it a new key then, and make the
// second press a second order.
const cacheControl = "private, no-cache"

// Render executes the template name of t (t itself if name is empty) and writes a page that has a
// key or a token in it: as HTML, with the Cache-Control "private, no-cache". No cache gives such a
// page to another user, whoever opens it again gets a new key, and whoever comes back to it by the
// Back button may find it as it was. The page is made whole first: on an error nothing is written,
// and the caller answers. The error of a token that was not issued wraps what the issuer said.
//
// Pages that are made in another way should say the same: [Header].
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
	_, _ = page.WriteTo(w) // nobody is left to tell
	return nil
}

// Header sets the Cache-Control of a page with a key or a token: "private, no-cache".
func Header(h http.Header) { h.Set("Cache-Control", cacheControl) }

// SeeOther ends the work of a form: 303 See Other to the page of its result, so that a reload shows
// the result again and sends nothing. A repeat of the form is given the same redirect from the
// record. location is best a path of this site ("/orders/7"); one that is made of what a request
// says should be looked at first, since it may lead elsewhere. Under the policy Succeed repeats get
// httpidem.Options.Succeed in its place.
func SeeOther(w http.ResponseWriter, r *http.Request, location string) {
	w.Header().Set("Cache-Control", "no-store") // the record answers the repeats, not a cache
	http.Redirect(w, r, location, http.StatusSeeOther)
}
