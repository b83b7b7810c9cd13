package demo

import (
	"html/template"
	"net/http"
)

// formData is what formPage shows.
type formData struct {
	Request *http.Request
	lang    language
	Path    string
	form    form
	Number  int64
}

func (d formData) Lang() string          { return d.lang.tag() }
func (d formData) Short() string         { return d.lang.short() }
func (d formData) Say(key string) string { return d.lang.say(key) }
func (d formData) Title() string         { return d.lang.say("form." + d.form.way) }
func (d formData) Script() string        { return d.form.script }

const formPage = `<!doctype html>
<html lang="{{.Lang}}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{.Title}}</title>
<link rel="stylesheet" href="/frame.css">
{{with .Script}}<script type="module" src="{{.}}"></script>{{end}}
<main>
<h1 class="sr">{{.Title}}</h1>
<form method="post" action="{{.Path}}">
HIDDEN
<input type="hidden" name="item" value="teapot">
<input type="hidden" name="lang" value="{{.Short}}">
<input type="hidden" name="page" value="{{.Number}}">
<button name="how" value="button">{{.Say "form.order"}}</button>
</form>
</main>
</html>
`

var thanksPage = template.Must(template.New("thanks").Parse(`<!doctype html>
<html lang="{{.Lang}}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{.Title}}</title>
<link rel="stylesheet" href="/frame.css">
<main>
<h1 id="thanks">{{.Thanks}}</h1>
<p><a href="{{.Path}}">{{.Another}}</a></p>
</main>
</html>
`))

func thanks(w http.ResponseWriter, lang language, path, order string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = thanksPage.Execute(w, struct{ Lang, Title, Thanks, Another, Path string }{
		lang.tag(), lang.say("form.thanks.title"), lang.say("form.thanks", "order", order), lang.say("form.another"), path + "?lang=" + lang.short(),
	})
}

// framedPolicy is for the pages of the forms: they may submit themselves, and the page of the
// demonstration may frame them.
const framedPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"

// framed replaces the stricter policy of the demonstration's page.
func framed(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", framedPolicy)
		// Without a referrer policy that allows it, a browser does not say where a form comes from.
		w.Header().Set("Referrer-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}
