package demo

import (
	"html/template"
	"net/http"
)

const formPage = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{.Title}}</title>
<link rel="stylesheet" href="/frame.css">
{{with .Script}}<script type="module" src="{{.}}"></script>{{end}}
<form method="post" action="{{.Path}}">
HIDDEN
<input type="hidden" name="item" value="teapot">
<input type="hidden" name="page" value="{{.Number}}">
<button name="how" value="button">Order a teapot</button>
</form>
</html>
`

var thanksPage = template.Must(template.New("thanks").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Thank you</title>
<link rel="stylesheet" href="/frame.css">
<p id="thanks">Thank you: order {{.Order}}.</p>
<p><a href="{{.Path}}">Another form</a></p>
</html>
`))

func thanks(w http.ResponseWriter, path, order string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = thanksPage.Execute(w, struct{ Path, Order string }{path, order})
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
