package gateway_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// A gateway in your own program: it counts requests, and replaces the configuration while they run.
func Example() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	defer service.Close()

	log, monitor, store := slog.New(slog.DiscardHandler), gateway.NewMonitor(nil), memstore.New(nil)
	monitor.WatchInDoubt(store)
	engine := retrysafe.New(store, &retrysafe.Options{Secret: []byte("16 random bytes!"), Logger: log, Trace: monitor.Trace()})
	defer engine.Shutdown(context.Background())
	options := &gateway.Options{Upstreams: []string{service.URL}, Monitor: monitor, Logger: log}
	first, err := gateway.New(engine, options)
	if err != nil {
		fmt.Println(err)
		return
	}
	live := gateway.NewLive(first)
	defer live.Close()
	// server.Serve(listener) would start to serve
	server := gateway.NewServer(live, &gateway.ServerOptions{Logger: log})
	defer server.Close()
	admin := gateway.Admin(live, engine, monitor)

	send := func(h http.Handler, method, path string) {
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Idempotency-Key", "8e03978e-40d5-43e8-bc93-6894a57f9324")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, "replayed:", w.Header().Get("Idempotency-Replayed") == "true")
	}
	send(live, "POST", "/orders")
	options.Routes = []gateway.Route{{Match: "POST /orders/**"}}
	second, err := gateway.New(engine, options)
	if err != nil {
		fmt.Println(err)
		return
	}
	live.Replace(second)
	send(live, "POST", "/orders")
	send(admin, "GET", "/readyz")
	// Output:
	// 201 replayed: false
	// 201 replayed: true
	// 200 replayed: false
}

// A service that makes absolute URLs gets the client's Host, and its URLs lead to the gateway.
func ExampleOptions_keepHost() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://"+r.Host+"/orders/1")
		w.WriteHeader(http.StatusCreated)
	}))
	defer service.Close()
	for _, keep := range []bool{false, true} {
		log := slog.New(slog.DiscardHandler)
		engine := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("16 random bytes!"), Logger: log})
		g, err := gateway.New(engine, &gateway.Options{Upstreams: []string{service.URL}, KeepHost: keep, Logger: log})
		if err != nil {
			fmt.Println(err)
			return
		}
		r := httptest.NewRequest("POST", "http://shop.example/orders", http.NoBody)
		r.Header.Set("Idempotency-Key", "8e03978e-40d5-43e8-bc93-6894a57f9324")
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		fmt.Println(w.Header().Get("Location"))
		_ = g.Close()
		_ = engine.Shutdown(context.Background())
	}
	// Output:
	// /orders/1
	// http://shop.example/orders/1
}
