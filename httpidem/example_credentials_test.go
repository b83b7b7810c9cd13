package httpidem_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// A server that does not know its callers by itself: an API key names them.
func ExampleCredentials() {
	ctx := context.Background()
	engine := retrysafe.New(memstore.New(nil), nil)
	defer engine.Shutdown(ctx)

	idem := httpidem.New(engine, &httpidem.Options{Credentials: &httpidem.Credentials{HeaderSecret: "X-Api-Key"}})
	orders := 0
	server := httptest.NewServer(idem.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		orders++
		fmt.Fprintf(w, "order %d", orders)
	})))
	defer server.Close()
	for _, who := range []string{"ann's key", "ann's key", "bob's key"} {
		r, _ := http.NewRequestWithContext(ctx, "POST", server.URL, strings.NewReader("tea"))
		r.Header.Set("X-Api-Key", who)
		r.Header.Set("Idempotency-Key", "8e03978e-40d5-43e8-bc93-6894a57f9324")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		fmt.Printf("%s: %s\n", who, body)
	}
	// Output:
	// ann's key: order 1
	// ann's key: order 1
	// bob's key: order 2
}
