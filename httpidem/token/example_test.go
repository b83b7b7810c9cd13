package token_test

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/token"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

var page = template.Must(template.New("").Parse(`<form method="post" action="/orders">
<input type="hidden" name="idempotency_key" value="{{.}}"><input name="item"><button>Order</button>
</form>`))

// A form with a hidden token, and Post/Redirect/Get: pressing twice, going back and sending again
// all lead to one order.
func Example() {
	engine := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("16 random bytes!")})
	defer engine.Shutdown(context.Background())
	tenant := func(*http.Request) (string, error) { return "ann", nil } // from the session
	tokens := token.NewIssuer(engine, &token.Options{Tenant: tenant})
	idem := httpidem.New(engine, &httpidem.Options{Tenant: tenant, Key: httpidem.Token, KeySource: httpidem.KeySource{Tokens: tokens}})

	orders := 0
	mux := http.NewServeMux()
	mux.HandleFunc("GET /order", func(w http.ResponseWriter, r *http.Request) {
		text, err := tokens.Issue(r.Context(), "ann")
		if err != nil {
			http.Error(w, "Try again soon.", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Cache-Control", "no-store") // each page has its own token
		_ = page.Execute(w, text)
	})
	mux.Handle("POST /orders", idem.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		orders++
		fmt.Println("ordered:", r.FormValue("item"))
		http.Redirect(w, r, fmt.Sprint("/orders/", orders), http.StatusSeeOther)
	})))
	mux.Handle("POST /tokens", tokens) // for scripts

	server := httptest.NewServer(mux)
	defer server.Close()
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Get(server.URL + "/order")
	if err != nil {
		fmt.Println(err)
		return
	}
	form, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	hidden := regexp.MustCompile(`value="([^"]+)"`).FindSubmatch(form)[1]
	for range 3 {
		resp, err := client.PostForm(server.URL+"/orders", url.Values{"idempotency_key": {string(hidden)}, "item": {"tea"}})
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

// Without HTTP: a service desk issues a ticket, and the first to bring it is served once.
func ExampleRun() {
	ctx := context.Background()
	engine := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("16 random bytes!")})
	defer engine.Shutdown(ctx)
	tokens := token.NewIssuer(engine, nil)
	ticket, err := tokens.Issue(ctx, "ann")
	if err != nil {
		fmt.Println(err)
		return
	}
	paper := false
	pay := func(context.Context) error {
		if !paper {
			return retrysafe.NothingDone(errors.New("the printer has no paper"))
		}
		fmt.Println("paid out")
		return nil
	}
	for range 3 {
		replayed, err := token.Run(ctx, tokens, "ann", ticket, pay)
		fmt.Println("replayed:", replayed, "error:", err)
		paper = true
	}
	_, err = token.Run(ctx, tokens, "bob", ticket, pay)
	fmt.Println("bob is refused:", errors.Is(err, retrysafe.ErrNotIssued))
	// Output:
	// replayed: false error: the printer has no paper
	// paid out
	// replayed: false error: <nil>
	// replayed: true error: <nil>
	// bob is refused: true
}

// A script requests a token over HTTP.
func ExampleIssuer_ServeHTTP() {
	engine := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("16 random bytes!")})
	defer engine.Shutdown(context.Background())
	tokens := token.NewIssuer(engine, &token.Options{Tenant: httpidem.Global, Rate: 1})
	for range 2 {
		w := httptest.NewRecorder()
		tokens.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/tokens", nil))
		fmt.Println(w.Code, w.Header().Get("Cache-Control"), "asked again in time:", w.Header().Get("Retry-After") == "")
	}
	// Output:
	// 201 no-store asked again in time: true
	// 429 no-store asked again in time: false
}

// The classic check-and-delete: at most once, and what is lost after it stays lost.
func ExampleIssuer_Take() {
	ctx := context.Background()
	engine := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("16 random bytes!")})
	defer engine.Shutdown(ctx)
	tokens := token.NewIssuer(engine, nil)
	ticket, _ := tokens.Issue(ctx, "ann")
	fmt.Println(tokens.Take(ctx, "ann", ticket))
	fmt.Println(errors.Is(tokens.Take(ctx, "ann", ticket), retrysafe.ErrDuplicate))
	// Output:
	// <nil>
	// true
}
