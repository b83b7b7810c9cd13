package echoidem_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/labstack/echo/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/echoidem"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// An order that is sent twice with one key is placed once; an error is replayed too.
func Example() {
	engine := retrysafe.New(memstore.New(nil), nil)
	idem := httpidem.New(engine, &httpidem.Options{Tenant: httpidem.Global})
	placed := 0
	e := echo.New()
	e.POST("/orders", func(c *echo.Context) error {
		if placed == 1 {
			return echo.NewHTTPError(http.StatusUnprocessableEntity, "sold out")
		}
		placed++
		return c.String(http.StatusCreated, "order 1")
	}, echoidem.Middleware(idem))
	for _, key := range []string{"cart-7", "cart-7", "cart-8", "cart-8"} {
		r := httptest.NewRequest(http.MethodPost, "/orders", nil)
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		fmt.Printf("%d, replayed: %t\n", w.Code, w.Header().Get("Idempotency-Replayed") == "true")
	}
	// Output:
	// 201, replayed: false
	// 201, replayed: true
	// 422, replayed: false
	// 422, replayed: true
}
