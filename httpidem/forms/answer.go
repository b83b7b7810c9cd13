package forms

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"html/template"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

// Refusal is the data for the template of [Answer].
type Refusal struct {
	*httpidem.Problem
	// Again reports whether the same form may be sent again. A reload of the page does that.
	Again bool
	// Seconds to wait before that; zero: none.
	Seconds int
}

// Template makes a page of data, as the templates of html/template do.
type Template interface {
	Execute(w io.Writer, data any) error
}

// plainPage is the page without style. It is no template: a program that renders none does not link
// html/template.
type plainPage struct{}

func (plainPage) Execute(w io.Writer, data any) error {
	r := data.(Refusal) //nolint:errcheck,forcetypeassert // ErrorHandler calls it
	advice := html.EscapeString(r.Detail)
	switch {
	case r.Again && r.Seconds > 0:
		advice = fmt.Sprintf("Reload this page in %d s to ask again, and let the browser send the form again: it is done once at most.", r.Seconds)
	case r.Again:
		advice = "Reload this page to ask again, and let the browser send the form again: it is done once at most."
	case r.Code == "payload-mismatch":
		advice = "This form was sent before with other entries, and this time nothing was done. To send it as it is now, open the form again."
	}
	title := html.EscapeString(r.Title)
	_, err := fmt.Fprintf(w, `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
<h1>%s</h1>
<p>%s</p>
</html>
`, title, title, advice)
	return err
}

// ErrorHandler is for httpidem.Options.ErrorHandler. It answers people who have sent a form with an
// HTML page, where programs get a problem document. It executes t with a [Refusal]; if t is nil, it
// uses a page without style. Clients that do not accept text/html get the problem document, as does
// everyone if t fails.
func ErrorHandler(t Template) func(w http.ResponseWriter, r *http.Request, err error) {
	if none, ok := t.(*template.Template); t == nil || ok && none == nil {
		t = plainPage{}
	}
	return func(w http.ResponseWriter, r *http.Request, err error) {
		var p *httpidem.Problem
		if !errors.As(err, &p) {
			p = httpidem.NewProblem(retrysafe.CodeOf(err).String(), err)
		}
		var b bytes.Buffer
		again := p.RetrySeconds() > 0
		if !acceptsHTML(r.Header) || t.Execute(&b, Refusal{p, again, p.RetrySeconds()}) != nil {
			p.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		if p.Type != "" {
			h.Add("Link", "<"+p.Type+`>; rel="describedby"`)
		}
		h.Del("Content-Length")
		if again {
			h.Set("Retry-After", strconv.Itoa(p.RetrySeconds()))
		}
		w.WriteHeader(p.Status)
		_, _ = b.WriteTo(w) // the client has gone
	}
}

// acceptsHTML reports whether a client accepts text/html by name, as browsers do.
func acceptsHTML(h http.Header) bool {
	for _, line := range h["Accept"] {
		for part := range strings.SplitSeq(line, ",") {
			media, params, err := mime.ParseMediaType(part)
			if err != nil || media != "text/html" {
				continue
			}
			q, set := params["q"]
			weight, err := strconv.ParseFloat(q, 64)
			if !set || err == nil && weight > 0 {
				return true
			}
		}
	}
	return false
}
