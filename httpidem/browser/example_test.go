package browser_test

import (
	"fmt"
	"html/template"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/retrysafe/retrysafe/httpidem/browser"
)

var page = template.Must(template.New("").Parse(`<form method="post" action="/orders">…</form>
<script type="module">
import { enhance } from "{{.}}";
enhance(document.forms[0]);
</script>
`))

// A service serves the script with its own pages. The address changes with the script, so browsers
// cache it for a year.
func Example() {
	mux := http.NewServeMux()
	mux.Handle("GET /static/retrysafe.js", browser.Handler())
	mux.HandleFunc("GET /order", func(w http.ResponseWriter, _ *http.Request) {
		_ = page.Execute(w, browser.URL("/static/retrysafe.js"))
	})

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, browser.URL("/static/retrysafe.js"), nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	fmt.Println(w.Header().Get("Cache-Control"))
	fmt.Println(strings.Contains(w.Body.String(), "export async function fetchOnce"))
	// Output:
	// 200 text/javascript; charset=utf-8
	// public, max-age=31536000, immutable
	// true
}
