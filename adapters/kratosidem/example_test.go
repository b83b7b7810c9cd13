package kratosidem_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	khttp "github.com/go-kratos/kratos/v2/transport/http"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/kratosidem"
	"github.com/retrysafe/retrysafe/rpcidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// An order that is sent twice with one key is placed once. The route stands for generated code.
func Example() {
	engine := retrysafe.New(memstore.New(nil), nil)
	placed := 0
	server := khttp.NewServer(khttp.Middleware(kratosidem.Server(engine, &rpcidem.Options{Tenant: rpcidem.Global})))
	server.Route("/").POST("/orders", func(c khttp.Context) error {
		in := new(wrapperspb.StringValue)
		if err := c.Bind(in); err != nil {
			return err
		}
		khttp.SetOperation(c, "/shop.v1.Orders/Place")
		out, err := c.Middleware(func(context.Context, any) (any, error) {
			placed++
			return wrapperspb.String(fmt.Sprintf("order %d: %s", placed, in.GetValue())), nil
		})(c, in)
		if err != nil {
			return err
		}
		return c.Result(http.StatusCreated, out)
	})
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(`"tea"`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", "cart-7")
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		fmt.Printf("%d %s, replayed: %t\n", w.Code, w.Body, w.Header().Get("Idempotency-Replayed") == "true")
	}
	// Output:
	// 201 "order 1: tea", replayed: false
	// 201 "order 1: tea", replayed: true
}
