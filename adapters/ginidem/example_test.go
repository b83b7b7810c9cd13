package ginidem_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/ginidem"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// An order that is sent twice with one key is placed once.
func Example() {
	engine := retrysafe.New(memstore.New(nil), nil)
	idem := httpidem.New(engine, &httpidem.Options{Tenant: httpidem.Global})
	placed := 0
	router := gin.New()
	router.POST("/orders", ginidem.Middleware(idem), func(c *gin.Context) {
		placed++
		c.JSON(http.StatusCreated, gin.H{"order": placed})
	})
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/orders", nil)
		r.Header.Set("Idempotency-Key", "cart-7")
		w := httptest.NewRecorder()
		router.ServeHTTP(w, r)
		fmt.Printf("%d %s, replayed: %t\n", w.Code, w.Body, w.Header().Get("Idempotency-Replayed") == "true")
	}
	// Output:
	// 201 {"order":1}, replayed: false
	// 201 {"order":1}, replayed: true
}
