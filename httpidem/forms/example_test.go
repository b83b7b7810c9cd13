package forms_test

import (
	"context"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/forms"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

var orderPage = template.Must(template.New("").Funcs(forms.Funcs(nil)).Parse(`<form method="post" action="/orders">
{{retrysafeKey}}<input name="item"><button>Order</button>
</form>`))

// A form with its own key, and a redirect to the result: pressing again, in whatever way, leads to
// one order.
func Example() {
	engine := retrysafe.New(memstore.New(nil), nil)
	defer engine.Shutdown(context.Background())
	idem := httpidem.New(engine, &httpidem.Options{
		Tenant: func(*http.Request) (string, error) { return "ann", nil }, // from the session
		Key:    httpidem.Required, KeySource: httpidem.KeySource{Form: true},
		Policy:       retrysafe.Policy{Wait: 10 * time.Second},
		ErrorHandler: forms.ErrorHandler(nil),
	})

	orders := 0
	mux := http.NewServeMux()
	mux.HandleFunc("GET /order", func(w http.ResponseWriter, _ *http.Request) {
		if err := forms.Render(w, http.StatusOK, orderPage, "", nil); err != nil {
			http.Error(w, "Try again soon.", http.StatusInternalServerError)
		}
	})
	mux.Handle("POST /orders", idem.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		orders++
		fmt.Println("ordered:", r.FormValue("item"))
		forms.SeeOther(w, r, fmt.Sprint("/orders/", orders))
	})))

	server := httptest.NewServer(mux)
	defer server.Close()
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Get(server.URL + "/order")
	if err != nil {
		fmt.Println(err)
		return
	}
	page, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	key := regexp.MustCompile(`value="([^"]+)"`).FindSubmatch(page)[1]
	for range 3 {
		resp, err := client.PostForm(server.URL+"/orders", url.Values{"idempotency_key": {string(key)}, "item": {"tea"}})
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = resp.Body.Close()
		fmt.Println(resp.StatusCode, resp.Header.Get("Location"))
	}
	// Output:
	// ordered: tea
	// 303 /orders/1
	// 303 /orders/1
	// 303 /orders/1
}
