package forms

import (
	"bytes"
	"errors"
	"html/template"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/httpidem"
)

// Refusal is what a template of [Answer] gets.
type Refusal struct {
	*httpidem.Problem
	// Again: the same form may be sent again, and a reload of this page does that.
	Again bool
	// Seconds to wait before that; zero: none.
	Seconds int
}

var page = template.Must(template.New("answer").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title>
<h1>{{.Title}}</h1>
{{- if .Again}}
<p>Reload this page{{if .Seconds}} in {{.Seconds}} s{{end}} to ask again, and let the browser send the form again: it is done once at most.</p>
{{- else if eq .Code "payload-mismatch"}}
<p>This form was sent before with other entries, and this time nothing was done. To send it as it is now, open the form anew.</p>
{{- else}}
<p>{{.Detail}}</p>
{{- end}}
</html>
`))

// Answer is for httpidem.Options.Answer: people who have sent a form are told in a page of HTML
// what programs are told in a problem document. t is executed with a [Refusal]; nil is a page
// without any style. Programs, which do not accept text/html, and everything where t fails get the
// problem document.
func Answer(t *template.Template) func(w http.ResponseWriter, r *http.Request, err error) {
	if t == nil {
		t = page
	}
	return func(w http.ResponseWriter, r *http.Request, err error) {
		var p *httpidem.Problem
		if !errors.As(err, &p) {
			p = httpidem.NewProblem("store-unavailable", err)
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
		_, _ = b.WriteTo(w) // nobody is left to tell
	}
}

// acceptsHTML tells a browser that shows pages from everything else; those name the type.
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
