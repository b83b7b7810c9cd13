package demo

import (
	"fmt"
	"html"
	"html/template"
	"net/http"

	"github.com/retrysafe/retrysafe/httpidem/forms"
)

// pageHead begins each page of the forms: its language and its title.
const pageHead = `<!doctype html>
<html lang="%s">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>%[2]s</title>
<link rel="stylesheet" href="/frame.css">
`

const formBody = `<main>
<h1 class="sr">%s</h1>
<form method="post" action="%s">
%s
<input type="hidden" name="item" value="teapot">
<input type="hidden" name="lang" value="%s">
<input type="hidden" name="page" value="%d">
<button name="how" value="button">%s</button>
</form>
</main>
</html>
`

// writeForm writes the page of a form with a hidden field that keeps it from being sent twice, or
// none.
func writeForm(w http.ResponseWriter, lang language, path string, f form, hidden template.HTML, number int64) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	forms.Header(w.Header())
	title := html.EscapeString(lang.textOf("form." + f.way))
	fmt.Fprintf(w, pageHead, lang.tag(), title)
	if f.script != "" {
		fmt.Fprintf(w, "<script type=\"module\" src=\"%s\"></script>\n", f.script)
	}
	fmt.Fprintf(w, formBody, title, path, hidden, lang.short(), number, html.EscapeString(lang.textOf("form.order")))
}

const thanksBody = `<main>
<h1 id="thanks">%s</h1>
<p><a href="%s">%s</a></p>
</main>
</html>
`

func writeThanks(w http.ResponseWriter, lang language, path, order string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, pageHead, lang.tag(), html.EscapeString(lang.textOf("form.thanks.title")))
	fmt.Fprintf(w, thanksBody, html.EscapeString(lang.textOf("form.thanks", "order", order)), path+"?lang="+lang.short(), html.EscapeString(lang.textOf("form.another")))
}

// framedPolicy is for the pages of the forms: they may submit themselves, and the page of the
// demonstration may frame them.
const framedPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"

// allowFraming replaces the stricter policy of the demonstration's page.
func allowFraming(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", framedPolicy)
		// Without a referrer policy that allows it, a browser does not say where a form comes from.
		w.Header().Set("Referrer-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}
